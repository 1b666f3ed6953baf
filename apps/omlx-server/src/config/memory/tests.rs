//! Sizes and shares of memory as typed.

use super::*;

#[track_caller]
fn check(text: &str, expected: &Result<Memory, NotMemory>) {
    assert_eq!(&text.parse(), expected, "{text:?}");
}

#[test]
fn sizes_and_shares() {
    check("2GiB", &Ok(Memory::Bytes(2 << 30)));
    check("2g", &Ok(Memory::Bytes(2 << 30)));
    check("512 MB", &Ok(Memory::Bytes(512_000_000)));
    check("1.5KiB", &Ok(Memory::Bytes(1536)));
    check("25%", &Ok(Memory::Percent(25.0)));
    check("0.5 %", &Ok(Memory::Percent(0.5)));
}

#[test]
fn what_is_no_amount() {
    for text in ["", "2", "GiB", "2 apples", "-2GiB", "1.2.3GiB", "NaN%", "2e3MB"] {
        check(text, &Err(NotMemory::Form));
    }
    check("0%", &Err(NotMemory::Share));
    check("101%", &Err(NotMemory::Share));
    check("0B", &Err(NotMemory::Size));
    check("99999999TiB", &Err(NotMemory::Size));
}

#[test]
fn read_back() {
    assert_eq!(readable(1023), "1023 B");
    assert_eq!(readable(1536), "1.5 KiB");
    assert_eq!(readable(3 << 30), "3.0 GiB");
    assert_eq!(Memory::Percent(25.0).of(400), 100);
}
