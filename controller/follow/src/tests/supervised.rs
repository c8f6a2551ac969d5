//! A follower whose sink panics, and whoever starts it again.

use super::store::Running;
use crate::FollowState;
use crate::testing::{Answer, Server, Step, added, complete, eventually};

const STREAMED: &[&str] = &["sendInitialEvents=true"];

#[tokio::test]
async fn a_follower_that_panics_says_so_until_another_one_lists_anew_and_watches() {
    let server = Server::start();
    let list = [added("a", 3), complete(5), added("b", 6), added("panic", 7)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::supervised(&server);
    let failed = eventually("the panic", || Some(running.scope()).filter(|it| it.error.is_some())).await;
    assert!(failed.error.unwrap().contains("panicked"));
    assert_eq!((failed.state, failed.listed), (FollowState::BackingOff, true));
    running.until_table_is(&["a@3", "b@6"]).await;
    server.on(STREAMED, Answer::lines(&[added("a", 8), complete(9)]).then(Step::Hold));
    running.until_watching().await;
    assert_eq!(running.table(), ["a@8"], "what happened meanwhile is in the new list");
    assert_eq!((running.scope().error, running.scope().lists), (None, 2));
    assert_eq!(running.first_lists(), 1);
    server.release();
}
