//! Values with or without their place in the file.

use serde::de::{DeserializeOwned, MapAccess};
use serde_saphyr::Spanned;

use super::error::Place;

/// Whether values are read with their places. That takes much longer, so a file is read without first, and with
/// places only once something is known to be wrong with it.
pub(super) trait Places {
    type Of<T: DeserializeOwned>: DeserializeOwned;
    fn split<T: DeserializeOwned>(value: Self::Of<T>) -> At<T>;
}

/// A value and its place, where that is known.
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Option<Place>,
}

pub(super) struct Without;

impl Places for Without {
    type Of<T: DeserializeOwned> = T;
    fn split<T: DeserializeOwned>(value: T) -> At<T> {
        At { value, place: None }
    }
}

pub(super) struct With;

impl Places for With {
    type Of<T: DeserializeOwned> = Spanned<T>;
    fn split<T: DeserializeOwned>(spanned: Spanned<T>) -> At<T> {
        let place = Place::known(spanned.referenced).or_else(|| Place::known(spanned.defined));
        At { value: spanned.value, place }
    }
}

pub(super) fn next_key<'de, P: Places, T: DeserializeOwned, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<Option<At<T>>, A::Error> {
    Ok(map.next_key::<P::Of<T>>()?.map(P::split))
}

pub(super) fn next_value<'de, P: Places, T: DeserializeOwned, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<At<T>, A::Error> {
    map.next_value::<P::Of<T>>().map(P::split)
}
