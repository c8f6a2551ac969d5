//! Reads the dynamic symbol table of a 64-bit little-endian ELF file: the one thing the ABI tests need of it.

use std::collections::BTreeSet;

/// The names in a file's dynamic symbol table.
pub(crate) struct Symbols {
    /// Those the file offers.
    pub(crate) defined: BTreeSet<String>,
    /// Those it wants from others.
    pub(crate) undefined: BTreeSet<String>,
}

const SECTION_DYNSYM: u64 = 11;
const SYMBOL_SIZE: usize = 24;

/// A little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn offset(bytes: &[u8], at: usize, size: usize) -> usize {
    usize::try_from(number(bytes, at, size)).expect("an offset fits")
}

/// The part of a file that a section header describes.
fn section<'a>(file: &'a [u8], header: &[u8]) -> &'a [u8] {
    let (start, len) = (offset(header, 24, 8), offset(header, 32, 8));
    &file[start..start + len]
}

impl Symbols {
    pub(crate) fn read(file: &[u8]) -> Self {
        assert!(file.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
        let (start, size, count) = (offset(file, 40, 8), offset(file, 58, 2), offset(file, 60, 2));
        let header = |i: usize| &file[start + i * size..][..size];
        let table = (0..count)
            .map(header)
            .find(|header| number(header, 4, 4) == SECTION_DYNSYM)
            .expect("a dynamic symbol table");
        let names = section(file, header(offset(table, 40, 4)));
        let mut symbols = Self { defined: BTreeSet::new(), undefined: BTreeSet::new() };
        for symbol in section(file, table).chunks_exact(SYMBOL_SIZE) {
            let name = &names[offset(symbol, 0, 4)..];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let defined = number(symbol, 6, 2) != 0;
            let set = if defined { &mut symbols.defined } else { &mut symbols.undefined };
            set.insert(String::from_utf8_lossy(name).into_owned());
        }
        symbols
    }
}
