//! Creates that are cut off.

use std::time::Duration;

use sandgate_manager::NewSandbox;

use super::stage::{Cut, Stage};
use super::sweep;
use crate::laws::Broken;

/// How a create can be cut off whose user cannot ask again.
const ONCE: [Cut; 3] = [Cut::Dead, Cut::DeadLate, Cut::Left];

/// How a create with an `Idempotency-Key` can be.
const AGAIN: [Cut; 5] = [Cut::Dead, Cut::DeadLate, Cut::DeadLast, Cut::Left, Cut::Slow];

async fn create(
    stage: &mut Stage,
    wanted: &NewSandbox,
    user: usize,
    steps: u64,
    cut: Cut,
) -> Result<bool, Broken> {
    stage.rest().await?;
    let order = stage.users.push(user, wanted.clone());
    stage.users.create(&mut stage.world, 0, order, "creates");
    let is_cut = stage.cut(steps, cut).await?;
    if is_cut && stage.is_mere_death(cut) {
        return Ok(true);
    }
    let has_key = wanted.idempotency_key.is_some();
    if is_cut && has_key {
        stage.users.create(&mut stage.world, 1, order, "creates again");
        if cut.holds() {
            stage.answered().await?;
        }
    }
    stage.release().await?;
    if (has_key || !is_cut) && stage.users.orders[order].accepted.is_none() {
        return Err(Broken("the user got no sandbox".to_owned()));
    }
    stage.check(is_cut.then_some(cut)).await?;
    Ok(is_cut)
}

/// Sweeps a create. Returns how often a sandbox was left for the managers to sweep.
fn sweep_create(cuts: &[Cut], key: Option<&str>, user: usize, pool: usize) -> usize {
    let wanted = NewSandbox {
        template: "base".to_owned(),
        timeout: Some(Duration::from_secs(24 * 3600)),
        idempotency_key: key.map(str::to_owned),
        ..NewSandbox::default()
    };
    sweep(pool, cuts, &async |stage: &mut Stage, steps, cut| create(stage, &wanted, user, steps, cut).await)
}

#[test]
fn a_claim_from_a_pool_leaves_nothing_though_every_step_is_cut_off() {
    sweep_create(&ONCE, None, 0, 2);
}

#[test]
fn a_new_sandbox_leaves_nothing_though_every_step_is_cut_off() {
    sweep_create(&ONCE, None, 0, 0);
}

#[test]
fn a_claim_with_a_key_is_done_once_though_every_step_is_cut_off() {
    assert!(sweep_create(&AGAIN, Some("key"), 0, 2) > 0, "no death has left anything to be swept");
}

#[test]
fn a_new_sandbox_with_a_key_is_made_once_though_every_step_is_cut_off() {
    assert!(sweep_create(&AGAIN, Some("key"), 0, 0) > 0, "no death has left anything to be swept");
}

#[test]
fn a_claim_within_a_quota_counts_once_though_every_step_is_cut_off() {
    sweep_create(&AGAIN, Some("key"), 1, 2);
}
