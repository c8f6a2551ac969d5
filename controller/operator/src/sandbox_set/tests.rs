mod fixture;
mod invariants;
mod plans;
mod statuses;
