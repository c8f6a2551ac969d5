//! What must hold for every observation that a source hands to the table.

use sandgate_routes::{Limits, Observation, Outcome, RouteTable};

/// Applies observations to an empty table. None may be refused as invalid: a source checks what it reads.
pub fn assert_valid(observations: impl IntoIterator<Item = Observation>) {
    let (writer, _reader) = RouteTable::new(Limits::default());
    for observation in observations {
        let shown = format!("{observation:?}");
        let outcome = writer.apply(observation);
        assert!(!matches!(outcome, Outcome::Invalid(_)), "{outcome:?} of {shown}");
    }
}
