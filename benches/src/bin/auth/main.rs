//! What a credential costs. See the README of this folder's package.

#![forbid(unsafe_code)]

mod jwt;
mod request;

use std::path::PathBuf;
use std::process::ExitCode;

use sandgate_benches::machine;
use sandgate_benches::record::Record;

const USAGE: &str = "usage: auth request|jwt cached|jwt verify|flood [--quick] [--out FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let quick = words.contains(&"--quick");
    let out =
        words.iter().position(|&word| word == "--out").and_then(|at| words.get(at + 1)).map(PathBuf::from);
    let mut record = Record::default();
    println!("{}", machine::describe());
    match words[..] {
        ["request", ..] => request::request(&mut record, quick),
        ["jwt", "cached", ..] => jwt::cached(&mut record, quick),
        ["jwt", "verify", ..] => jwt::verify(&mut record, quick),
        ["flood", ..] => jwt::flood(&mut record, quick),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    record.close(out.as_deref())
}
