mod jobs;
mod lives;
mod sources;
