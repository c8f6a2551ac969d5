use super::Decimal;

#[test]
fn a_number_is_written_as_it_is() {
    for number in [0, 1, 9, 10, 1400, 60_000, 604_800_000, u32::MAX] {
        assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
    }
}
