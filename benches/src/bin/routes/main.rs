//! What the route table costs, beside what else could be in its place. See the README of this folder's
//! package.

#![forbid(unsafe_code)]

mod fixture;
mod instructions;
mod latency;
mod lookup;
mod memory;
mod rivals;
mod start;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use sandgate_benches::machine;
use sandgate_benches::record::Record;

const USAGE: &str = "usage: routes lookup|latency|writes|memory|start|instructions [--quick] [--out FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // What the memory and instruction benches start themselves with.
    match words[..] {
        ["hold", kind, size] => return memory::hold(kind, size),
        ["repeat", kind, size, lookups] => return instructions::repeat(kind, size, lookups),
        _ => {}
    }
    let quick = words.contains(&"--quick");
    let out =
        words.iter().position(|&word| word == "--out").and_then(|at| words.get(at + 1)).map(PathBuf::from);
    let mut record = Record::default();
    println!("{}", machine::describe());
    match words.first() {
        Some(&"lookup") => lookup::run(&mut record, quick),
        Some(&"latency") => latency::run(&mut record, quick),
        Some(&"writes") => writes::run(&mut record, quick),
        Some(&"memory") => memory::run(&mut record, quick),
        Some(&"start") => start::run(&mut record, quick),
        Some(&"instructions") => instructions::run(&mut record),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    record.summarise();
    println!("load at the end {}", machine::load());
    match out.map(|path| record.write(&path)) {
        Some(Err(error)) => {
            eprintln!("the record cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
