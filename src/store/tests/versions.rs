//! Saved Graphs: versions that never change, sessions that keep their ids.

use super::*;
use crate::store::graphs::{add, latest, latest_of_session, list, rename, update, version};

#[tokio::test]
async fn a_saved_version_stays_as_it_is_when_a_newer_one_comes() {
    let store = memory();
    store
        .write(|tx| {
            let one = save(tx, "digest", "return 1")?;
            let two = update(tx, "digest", &script("return 2"), 2_000)?.unwrap();
            assert_eq!((one.version, two.version), (1, 2));
            assert_eq!(one.session_id, two.session_id, "commands name the session: it must not change");
            assert_eq!(version(tx, "digest", 1)?.as_ref(), Some(&one));
            assert_eq!(latest(tx, "digest")?.as_ref(), Some(&two));
            assert_eq!(latest_of_session(tx, &one.session_id)?.as_ref(), Some(&two));
            assert_eq!(version(tx, "digest", 3)?, None);
            assert_eq!(list(tx)?, [two]);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_same_script_again_adds_no_version() {
    let store = memory();
    store
        .write(|tx| {
            let one = save(tx, "digest", "return 1")?;
            assert_eq!(update(tx, "digest", &script("return 1"), 2_000)?, Some(one));
            // Back to an old script: a version of its own, since it is what runs from now on.
            update(tx, "digest", &script("return 2"), 3_000)?;
            assert_eq!(update(tx, "digest", &script("return 1"), 4_000)?.unwrap().version, 3);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((count(&store, "graphs").await, count(&store, "scripts").await), (3, 2));
}

#[tokio::test]
async fn a_slug_names_one_graph() {
    let store = memory();
    store
        .write(|tx| {
            let digest = save(tx, "digest", "return 1")?;
            let invoices = save(tx, "invoices", "return 1")?;
            assert_ne!(digest.session_id, invoices.session_id, "two Graphs with one script are two sessions");
            assert_eq!(add(tx, "digest", &script("return 2"), 1)?, None);
            assert_eq!(update(tx, "nothing", &script("return 2"), 1)?, None);
            assert_eq!(latest(tx, "digest")?, Some(digest));
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_new_name_keeps_session_and_versions_and_takes_no_other_s_place() {
    let store = memory();
    store
        .write(|tx| {
            let digest = save(tx, "digest", "return 1")?;
            save(tx, "invoices", "return 2")?;
            assert!(!rename(tx, "digest", "invoices")?, "the name of another Graph was taken");
            assert!(!rename(tx, "nothing", "something")?);
            assert!(rename(tx, "digest", "news")?);
            let news = latest(tx, "news")?.unwrap();
            assert_eq!((news.session_id, news.version), (digest.session_id, 1));
            assert_eq!(latest(tx, "digest")?, None);
            Ok(())
        })
        .await
        .unwrap();
}
