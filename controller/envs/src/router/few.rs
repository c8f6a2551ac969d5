//! A list that is kept in place while it is short.

/// How many members an environment may have in a cluster before a decision about it allocates.
pub const FEW: usize = 16;

/// A list of values. The first [`FEW`] are kept in place.
#[derive(Clone, Debug)]
pub(super) struct Few<T> {
    few: [T; FEW],
    len: usize,
    /// All of them, once there are more than a few.
    many: Vec<T>,
}

impl<T: Copy + Default> Default for Few<T> {
    fn default() -> Self {
        Self { few: [T::default(); FEW], len: 0, many: Vec::new() }
    }
}

impl<T: Copy + Default> Few<T> {
    pub(super) fn push(&mut self, value: T) {
        if let Some(place) = self.few.get_mut(self.len) {
            *place = value;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(value);
        }
        self.len += 1;
    }

    pub(super) fn as_slice(&self) -> &[T] {
        if self.many.is_empty() { self.few.get(..self.len).unwrap_or_default() } else { &self.many }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.many.is_empty() { self.few.get_mut(..self.len).unwrap_or_default() } else { &mut self.many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_it_grows() {
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let mut few = Few::default();
            (0..length).for_each(|value| few.push(value));
            let expected: Vec<usize> = (0..length).collect();
            assert_eq!(few.as_slice(), expected);
            assert_eq!(few.as_mut_slice(), expected);
        }
    }
}
