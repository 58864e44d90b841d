//! What happens at each cap.

use super::*;

fn rows(max_rows: u32) -> Policy {
    Policy { max_rows, ..Policy::default() }
}

fn bytes(max_bytes: u64) -> Policy {
    Policy { max_bytes, ..Policy::default() }
}

fn try_put(file: &File, key: &str, body: &[u8], policy: &Policy) -> Result<Enqueued> {
    enqueue(&file.conn, &NewItem { key, destination: HUB, body }, policy, 0)
}

#[test]
fn at_the_cap_on_rows_new_items_are_refused_and_old_ones_stay() {
    let mut file = File::new();
    file.put("a", 0);
    file.put("b", 0);
    assert!(has_room(&file.conn, &rows(3), 0).unwrap());
    assert!(!has_room(&file.conn, &rows(2), 0).unwrap());
    assert!(matches!(try_put(&file, "c", b"", &rows(2)), Err(Error::Full(Cap::Rows(2)))));
    assert_eq!(try_put(&file, "a", b"", &rows(2)).unwrap(), Enqueued::AlreadyThere);
    assert_eq!(file.due_keys(0), ["a", "b"]);
    acknowledge(&file.conn, 1).unwrap();
    assert_eq!(try_put(&file, "c", b"", &rows(2)).unwrap(), Enqueued::Stored);
}

#[test]
fn the_cap_on_bytes_is_exact() {
    let file = File::new();
    try_put(&file, "a", &[0; 60], &bytes(100)).unwrap();
    assert!(has_room(&file.conn, &bytes(100), 40).unwrap());
    assert!(!has_room(&file.conn, &bytes(100), 41).unwrap());
    assert!(!has_room(&file.conn, &bytes(100), u64::MAX).unwrap());
    assert!(matches!(try_put(&file, "b", &[0; 41], &bytes(100)), Err(Error::Full(Cap::Bytes(100)))));
    try_put(&file, "b", &[0; 40], &bytes(100)).unwrap();
    assert_eq!(stats(&file.conn).unwrap().bytes, 100);
}

#[test]
fn dead_letters_take_room_until_they_are_dropped() {
    let mut file = File::new();
    file.put("a", 0);
    refuse(&file.conn, 1, "410", 0).unwrap();
    assert!(matches!(try_put(&file, "b", b"", &rows(1)), Err(Error::Full(Cap::Rows(1)))));
    assert!(!has_room(&file.conn, &bytes(1), 1).unwrap());
    drop_dead(&file.conn, 1).unwrap();
    try_put(&file, "b", b"", &rows(1)).unwrap();
}

#[test]
fn an_item_past_its_age_becomes_a_dead_letter_that_can_be_retried() {
    let month_ms = 30 * 24 * 3600 * 1000;
    let mut file = File::new();
    file.put("old", 0);
    file.put("young", 1);
    file.fail(1, None, 5);
    assert_eq!(expire(&file.conn, &Policy::default(), month_ms).unwrap(), 0);
    assert_eq!(expire(&file.conn, &Policy::default(), month_ms + 1).unwrap(), 1);
    assert_eq!(file.due_keys(month_ms + 1), ["young"]);
    let dead = dead_letters(&file.conn).unwrap().remove(0);
    assert_eq!(dead.death, Some(Death { at_ms: month_ms + 1, cause: DeathCause::Expired }));
    assert_eq!(dead.last_error.as_deref(), Some("503"));

    // Its age counts anew, or the next cycle would bury it again; when it was enqueued stays known.
    retry_dead(&file.conn, dead.id, month_ms + 1).unwrap();
    assert_eq!(expire(&file.conn, &Policy::default(), month_ms + 1).unwrap(), 0);
    assert_eq!(list(&file.conn).unwrap()[0].enqueued_at_ms, 0);
}

#[test]
fn the_error_says_which_cap() {
    let text = |cap| Error::Full(cap).to_string();
    assert_eq!(text(Cap::Rows(10_000)), "the outbox is full: at most 10000 items");
    assert_eq!(text(Cap::Bytes(7)), "the outbox is full: at most 7 bytes");
}
