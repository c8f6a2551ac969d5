use super::*;

mod election;
mod model;
mod running;
mod server;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn durations_that_let_two_lead_are_refused() {
    let times = |duration, renew, retry| Times::new(duration, renew, retry).map(|_| ());
    assert_eq!(times(seconds(15), seconds(10), seconds(2)), Ok(()));
    assert_eq!(times(Duration::from_millis(1500), seconds(1), seconds(1)), Err(TimesError::Duration));
    assert_eq!(times(seconds(0), seconds(0), seconds(0)), Err(TimesError::Duration));
    assert_eq!(times(seconds(10), seconds(10), seconds(2)), Err(TimesError::Renew));
    assert_eq!(times(seconds(15), seconds(10), seconds(6)), Err(TimesError::Retry));
    assert_eq!(times(seconds(15), seconds(10), seconds(0)), Err(TimesError::Retry));
    let default = Times::default();
    assert_eq!(Times::new(default.duration, default.renew, default.retry), Ok(default));
}

#[tokio::test(start_paused = true)]
async fn a_leadership_ends_by_itself_if_nobody_renews_it() {
    let (tenure, leadership) = Leadership::new();
    assert!(leadership.check().is_err());
    let start = Instant::now();
    tenure.lead(Term(3), start + seconds(10));
    assert_eq!(leadership.check().unwrap(), Term(3));
    drop(tenure);
    leadership.lost().await;
    assert_eq!(start.elapsed(), seconds(10));
    assert_eq!(leadership.check().unwrap_err().category, crate::Category::NotLeading);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_change_is_told_of_gain_renewal_and_loss() {
    let (tenure, leadership) = Leadership::new();
    let start = Instant::now();
    let waiting = tokio::spawn({
        let leadership = leadership.clone();
        async move {
            leadership.changed().await;
            let gained = start.elapsed();
            leadership.changed().await;
            (gained, start.elapsed())
        }
    });
    tokio::time::sleep(seconds(1)).await;
    tenure.lead(Term(0), start + seconds(5));
    tokio::time::sleep(seconds(3)).await;
    tenure.lead(Term(0), start + seconds(20));
    tokio::time::sleep(seconds(5)).await;
    tenure.end();
    assert_eq!(waiting.await.unwrap(), (seconds(1), seconds(9)));
}

#[tokio::test(start_paused = true)]
async fn one_replica_leads_for_ever() {
    let leadership = Leadership::always();
    assert_eq!(leadership.gained().await, Term(0));
    assert!(tokio::time::timeout(seconds(100_000), leadership.lost()).await.is_err());
}
