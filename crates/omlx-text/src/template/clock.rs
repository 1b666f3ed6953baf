//! `strftime_now`: today's date in a prompt, in UTC and in English, from a time given by the caller.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A date and time of day.
struct Moment {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    day_of_year: i64,
    second: i64,
}

/// Writes `now` by a strftime format. A code that is not known stays as it is.
pub(crate) fn format(now: SystemTime, format: &str) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let moment = moment(i64::try_from(seconds).unwrap_or(0));
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        let bare = code == Some('-');
        if bare {
            code = chars.next();
        }
        match code.and_then(|code| moment.write(code)) {
            Some(text) if bare => {
                let short = text.trim_start_matches('0');
                out.push_str(if short.is_empty() { "0" } else { short });
            }
            Some(text) => out.push_str(&text),
            None => {
                out.push('%');
                out.extend(bare.then_some('-'));
                out.extend(code);
            }
        }
    }
    out
}

impl Moment {
    fn write(&self, code: char) -> Option<String> {
        let (hour, minute) = (self.second / 3600, self.second / 60 % 60);
        let hour12 = (hour + 11) % 12 + 1;
        Some(match code {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month + 1),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'B' => MONTHS[self.month].to_owned(),
            'b' | 'h' => MONTHS[self.month][..3].to_owned(),
            'A' => DAYS[self.weekday].to_owned(),
            'a' => DAYS[self.weekday][..3].to_owned(),
            'w' => self.weekday.to_string(),
            'j' => format!("{:03}", self.day_of_year),
            'H' => format!("{hour:02}"),
            'I' => format!("{hour12:02}"),
            'M' => format!("{minute:02}"),
            'S' => format!("{:02}", self.second % 60),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month + 1, self.day),
            'T' => format!("{hour:02}:{minute:02}:{:02}", self.second % 60),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// The calendar date of a Unix time not below 0.
fn moment(seconds: i64) -> Moment {
    let days = seconds / 86_400;
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // 400 years have 146097 days; whole cycles are skipped so that the walk below stays short.
    let mut year = 1970 + days / 146_097 * 400;
    let mut rest = days % 146_097;
    while rest >= 365 + i64::from(leap(year)) {
        rest -= 365 + i64::from(leap(year));
        year += 1;
    }
    let day_of_year = rest + 1;
    let mut month = 0;
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    let weekday = usize::try_from((days + 4) % 7).unwrap_or(0); // 1970-01-01 was a Thursday
    Moment { year, month, day: rest + 1, weekday, day_of_year, second: seconds % 86_400 }
}

#[cfg(test)]
mod tests;
