use std::io;

use super::MAX_BYTES;

/// Why a routes file was not loaded. Trying again helps only after the file has changed.
///
/// The text is safe to show anywhere: it says where a value stands and what was expected there, and never
/// repeats the value, which could be a token.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is missing or cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A folder, pipe or device stands where the file should be.
    #[error("is not a regular file")]
    NotAFile,
    /// Over the size limit.
    #[error("is larger than {MAX_BYTES} bytes, the most a routes file may have")]
    TooLarge,
    /// The content is wrong.
    #[error("{line}:{column}: {problem}")]
    Invalid {
        /// From 1.
        line: u64,
        /// From 1, in characters.
        column: u64,
        /// Which key, and what was expected.
        problem: String,
    },
    /// The table has no room for a route. Those before it in the file are in, and nothing was taken out.
    #[error("does not fit into the table: {0}")]
    Refused(String),
}

impl FileError {
    pub(super) fn invalid(place: Place, problem: impl Into<String>) -> Self {
        FileError::Invalid { line: place.line, column: place.column, problem: problem.into() }
    }

    /// Line and column, where the error has them.
    pub fn place(&self) -> Option<(u64, u64)> {
        match self {
            FileError::Invalid { line, column, .. } => Some((*line, *column)),
            _ => None,
        }
    }
}

/// A position in the file, both counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    pub(super) const START: Place = Place { line: 1, column: 1 };

    pub(super) fn known(location: serde_saphyr::Location) -> Option<Self> {
        let place = Place { line: location.line(), column: location.column() };
        (place.line > 0 && place.column > 0).then_some(place)
    }

    /// The place of a byte.
    pub(super) fn of_offset(content: &[u8], offset: usize) -> Self {
        let before = &content[..offset.min(content.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count();
        // Every byte that does not continue a UTF-8 character begins one.
        let column = before[line_start..].iter().filter(|&&b| b & 0xC0 != 0x80).count();
        Place { line: line as u64 + 1, column: column as u64 + 1 }
    }

    /// From a JSON parser's line and column, which counts bytes.
    pub(super) fn of_line(content: &[u8], line: usize, column: usize) -> Self {
        let start = match line {
            0 | 1 => 0,
            _ => content
                .iter()
                .enumerate()
                .filter(|(_, b)| **b == b'\n')
                .nth(line - 2)
                .map_or(0, |(at, _)| at + 1),
        };
        Self::of_offset(content, start + column.saturating_sub(1))
    }
}
