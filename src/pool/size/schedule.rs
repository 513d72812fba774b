//! Which schedule is on.

use croner::parser::{CronParser, Seconds};
use jiff::{Timestamp, tz::TimeZone};

use crate::pool::api::Schedule;

/// Why a schedule can't be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// Its `start` is no cron expression.
    #[error("schedule {name:?}: start {start:?} is no cron expression of five fields, such as \"0 8 * * 1-5\": {why}")]
    Start {
        /// The schedule.
        name: String,
        /// What it says.
        start: String,
        /// What is wrong.
        why: String,
    },
    /// Its `timezone` isn't known.
    #[error("schedule {name:?}: unknown timezone {timezone:?}, write an IANA name such as \"Europe/Berlin\"")]
    Timezone {
        /// The schedule.
        name: String,
        /// What it says.
        timezone: String,
    },
}

/// The last of the schedules that are on, as GitLab's runners have it.
///
/// # Errors
/// The first schedule that can't be read.
pub fn active(schedules: &[Schedule], now: Timestamp) -> Result<Option<&Schedule>, ScheduleError> {
    let mut found = None;
    for schedule in schedules {
        if is_on(schedule, now)? {
            found = Some(schedule);
        }
    }
    Ok(found)
}

fn is_on(schedule: &Schedule, now: Timestamp) -> Result<bool, ScheduleError> {
    let name = &schedule.name;
    let zone = schedule.timezone.as_deref().unwrap_or("UTC");
    let zone =
        TimeZone::get(zone).map_err(|_| ScheduleError::Timezone { name: name.clone(), timezone: zone.to_owned() })?;
    let bad = |why: String| ScheduleError::Start { name: name.clone(), start: schedule.start.clone(), why };
    let parser = CronParser::builder().seconds(Seconds::Disallowed).build();
    let cron = parser.parse(&schedule.start).map_err(|error| bad(error.to_string()))?;
    // An expression that never came true (29 February at the start of time) isn't on.
    let Ok(started) = cron.find_previous_occurrence(&now.to_zoned(zone), true) else { return Ok(false) };
    let lasted = now.duration_since(started.timestamp());
    Ok(lasted.as_secs() < i64::from(schedule.duration_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(start: &str, hours: i32, timezone: &str) -> Schedule {
        Schedule {
            name: start.into(),
            start: start.into(),
            duration_seconds: hours * 3600,
            timezone: (!timezone.is_empty()).then(|| timezone.into()),
            min_idle: Some(1),
            max: None,
        }
    }

    fn on(schedule: &Schedule, at: &str) -> bool {
        is_on(schedule, at.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_schedule_is_on_from_its_start_for_its_duration_in_its_time_zone() {
        let workday = schedule("0 8 * * 1-5", 10, "Europe/Berlin");
        // 2026-06-01 is a Monday; Berlin is two hours ahead in summer, one in winter.
        for (at, want) in [
            ("2026-06-01T05:59:59Z", false),
            ("2026-06-01T06:00:00Z", true),
            ("2026-06-01T15:59:59Z", true),
            ("2026-06-01T16:00:00Z", false),
            ("2026-06-06T09:00:00Z", false),
            ("2026-12-01T06:30:00Z", false),
            ("2026-12-01T07:00:00Z", true),
        ] {
            assert_eq!(on(&workday, at), want, "{at}");
        }
        assert!(on(&schedule("0 22 * * *", 8, ""), "2026-06-02T05:59:00Z"), "over midnight");
        assert!(on(&schedule("0 0 * * *", 48, ""), "2026-06-02T05:59:00Z"), "longer than its period");
    }

    #[test]
    fn the_day_that_clocks_change_has_its_schedule_once_and_for_its_whole_duration() {
        // Berlin, 2026-03-29: 02:00 becomes 03:00. A start at 02:30 takes place once all the same.
        let night = schedule("30 2 * * *", 1, "Europe/Berlin");
        let minutes = (0..24 * 60).filter(|minute| {
            let at = "2026-03-28T23:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_mins(*minute);
            is_on(&night, at).unwrap()
        });
        assert!((1..=60).contains(&minutes.count()));
        // 2026-10-25: 03:00 becomes 02:00, so 02:30 comes twice.
        assert!(on(&night, "2026-10-25T00:45:00Z"));
    }

    #[test]
    fn the_last_of_those_that_are_on_counts_and_what_cannot_be_read_is_named() {
        let now = "2026-06-01T09:00:00Z".parse().unwrap();
        let all = [schedule("0 8 * * *", 3, ""), schedule("0 9 * * *", 1, ""), schedule("0 10 * * *", 1, "")];
        assert_eq!(active(&all, now).unwrap().unwrap().start, "0 9 * * *");
        let bad = schedule("0 8 * *", 1, "");
        let error = active(&[bad], now).unwrap_err().to_string();
        assert!(error.starts_with("schedule \"0 8 * *\": start \"0 8 * *\" is no cron expression of five fields"));
        let error = active(&[schedule("0 8 * * *", 1, "Berlin")], now).unwrap_err().to_string();
        assert_eq!(
            error,
            "schedule \"0 8 * * *\": unknown timezone \"Berlin\", write an IANA name such as \"Europe/Berlin\""
        );
    }
}
