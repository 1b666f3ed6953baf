//! The list of models in Anthropic's shape, for clients that name its version.

use super::wire::{Model, ModelList};
use crate::catalog::Card;

/// All models; the list is never cut.
pub(crate) fn list(cards: Vec<Card>) -> ModelList {
    let data: Vec<Model> = cards.into_iter().map(model).collect();
    let id = |model: Option<&Model>| model.map(|model| model.id.clone());
    ModelList { has_more: false, first_id: id(data.first()), last_id: id(data.last()), data }
}

/// One of them.
pub(crate) fn model(card: Card) -> Model {
    Model {
        kind: "model",
        display_name: card.id.clone(),
        id: card.id,
        created_at: date(card.created),
        lifecycle: "active",
        max_input_tokens: card.context,
    }
}

/// Seconds since 1970 as RFC 3339 has them.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from the first of March of year 0, so that a leap day is a year's last; 400 years have 146,097 days.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    //! Days against a calendar.

    use super::date;

    #[test]
    fn days_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
