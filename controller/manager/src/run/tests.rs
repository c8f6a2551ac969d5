use std::future::pending;

use tokio::time::Instant;

use super::*;

const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn requests_and_creates_end_by_one_deadline_and_what_is_cut_off_has_time_to_take_back() {
    let began = Instant::now();
    // Requests that take all they may, and creates that never end.
    assert!(!wind_down(WITHIN, sleep(of_requests(WITHIN)), pending()).await);
    assert_eq!(began.elapsed(), WITHIN);

    let began = Instant::now();
    let taking_back = Duration::from_secs(10);
    let creates = async { sleep(taking_back).await };
    assert!(wind_down(WITHIN, sleep(of_requests(WITHIN)), creates).await);
    assert_eq!(began.elapsed(), of_requests(WITHIN) + taking_back);

    let began = Instant::now();
    assert!(!wind_down(WITHIN, pending(), async {}).await);
    assert_eq!(began.elapsed(), WITHIN);
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_is_not_waited_for() {
    let began = Instant::now();
    assert!(wind_down(WITHIN, async {}, async {}).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
