mod answers;
mod fixture;
mod lives;
mod pauses;
mod pods;
mod updates;
