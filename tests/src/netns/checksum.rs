//! The checksum of a TCP segment in an Ethernet frame. The kernel leaves it to the hardware, and there is
//! none here: the relay writes it before it passes a frame on.

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;

/// Writes it, if the frame has one whole TCP segment over IPv4.
pub(super) fn complete(frame: &mut [u8]) {
    if frame.get(12..ETHERNET) != Some(&IPV4) {
        return;
    }
    let packet = &mut frame[ETHERNET..];
    let Some(&[first, _, high, low, ..]) = packet.first_chunk::<20>() else { return };
    let (head, length) = (usize::from(first & 15) * 4, usize::from(u16::from_be_bytes([high, low])));
    if packet[9] != TCP || head < 20 || packet.len() < length || length < head + 20 {
        return;
    }
    let (header, rest) = packet.split_at_mut(head);
    let segment = &mut rest[..length - head];
    segment[16..18].fill(0);
    let pseudo = sum(&header[12..20]) + u32::from(TCP) + u32::try_from(segment.len()).unwrap_or(0);
    let mut total = pseudo + sum(segment);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    segment[16..18].copy_from_slice(&(!(total & 0xffff)).to_be_bytes()[2..]);
}

fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    pairs.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_whole_segment() {
        // 192.168.0.1:1 to 192.168.0.2:80, a SYN, worked out by hand.
        let mut frame = vec![0; ETHERNET];
        frame[12..].copy_from_slice(&IPV4);
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2]);
        frame.extend([0, 1, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0xaa, 0xbb, 0, 0]);
        complete(&mut frame);
        // c0a8 + 0001 + c0a8 + 0002 + 0006 + 0014 + 0001 + 0050 + 5002 = 1d1c0, folded d1c1, turned over.
        assert_eq!(frame[ETHERNET + 36..ETHERNET + 38], [0x2e, 0x3e]);
        let before = frame.clone();
        complete(&mut frame);
        assert_eq!(frame, before);
        frame[12] = 0x86;
        complete(&mut frame);
        assert_eq!(frame[13..], before[13..]);
    }
}
