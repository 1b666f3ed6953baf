//! Dates against a table made with Python's `strftime` in UTC.

use super::*;
use std::time::Duration;

#[test]
fn dates() {
    for (seconds, expected) in [
        (0, "01 January 1970 Thu 00:00:00 12 AM 001"),
        (951_782_400, "29 February 2000 Tue 00:00:00 12 AM 060"),
        (1_735_689_599, "31 December 2024 Tue 23:59:59 11 PM 366"),
        (4_107_542_400, "01 March 2100 Mon 00:00:00 12 AM 060"),
    ] {
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(format(now, "%d %B %Y %a %H:%M:%S %I %p %j"), expected);
    }
}

#[test]
fn codes() {
    let now = UNIX_EPOCH + Duration::from_secs(951_782_400);
    for (code, expected) in [
        ("%d %b %Y", "29 Feb 2000"),
        ("%-m/%-H", "2/0"),
        ("100%% %Q %-", "100% %Q %-"),
        ("%", "%"),
        ("%F", "2000-02-29"),
    ] {
        assert_eq!(format(now, code), expected);
    }
}
