//! Ledger tests.
