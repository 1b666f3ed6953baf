//! A panic of the library is an error, and a hook can tell it from others.

use std::panic;
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Fault, guarded, is_trying};

/// Seen to fail: the mark not taken away afterwards.
#[test]
fn a_panic_while_trying_is_known_to_the_hook() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, us, before) = (seen.clone(), thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == us {
            log.lock().unwrap().push(is_trying());
        } else {
            before(info);
        }
    }));
    let error = guarded(|| -> Result<(), Fault> { panic!("the reason") }).unwrap_err();
    assert_eq!(error.to_string(), "the tokenizer library fails on it (the reason)");
    assert!(!is_trying());
    let other = panic::catch_unwind(|| panic!("another"));
    assert!(other.is_err());
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}
