//! Numbered slots in chunks. Growing never moves what is stored, so the writer never waits for a move.

const PIECE: usize = if cfg!(miri) { 64 } else { 4096 };

pub(crate) struct Slab<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    end: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { pieces: Vec::new(), free: Vec::new(), end: 0 }
    }

    /// How many things there are.
    pub(crate) fn len(&self) -> usize {
        self.end - self.free.len()
    }

    /// How many places there are, used or not: the end of a scan.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        self.pieces.get(place / PIECE)?.get(place % PIECE)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        let place = place as usize;
        self.pieces.get_mut(place / PIECE)?.get_mut(place % PIECE)?.as_mut()
    }

    /// Puts a thing somewhere and says where. The caller keeps the number of things below that of places.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.pieces[place as usize / PIECE][place as usize % PIECE] = Some(thing);
            return place;
        }
        if self.end.is_multiple_of(PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        self.pieces[self.end / PIECE].push(Some(thing));
        self.end += 1;
        u32::try_from(self.end - 1).expect("fewer things than places")
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let thing = self.pieces.get_mut(place as usize / PIECE)?.get_mut(place as usize % PIECE)?.take()?;
        self.free.push(place);
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_stay_in_their_places_and_places_are_used_again() {
        let mut slab = Slab::new();
        let many = 2 * PIECE + 10;
        let places: Vec<_> = (0..many).map(|thing| slab.insert(thing)).collect();
        assert_eq!((slab.len(), slab.end()), (many, many));
        assert!(places.iter().enumerate().all(|(thing, &place)| slab.get(place) == Some(&thing)));

        assert_eq!(slab.remove(places[PIECE]), Some(PIECE));
        assert_eq!(slab.remove(places[PIECE]), None, "it is free once");
        assert_eq!((slab.get(places[PIECE]), slab.len(), slab.end()), (None, many - 1, many));
        assert_eq!(slab.insert(7), places[PIECE]);
        *slab.get_mut(places[PIECE]).unwrap() += 1;
        assert_eq!((slab.get(places[PIECE]), slab.len(), slab.end()), (Some(&8), many, many));
        assert_eq!(slab.get(u32::MAX), None);
        assert_eq!(slab.remove(u32::MAX), None);
    }
}
