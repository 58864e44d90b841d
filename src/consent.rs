//! Consent, looked at right before a command runs (SPEC 1.3).

/// What the hub is told when consent is missing. The text is part of the contract.
pub const NO_LONGER_SHARED: &str = "Graph session is no longer shared with this project";

/// What the owner's database says about a command at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation<'a> {
    /// Whether the project is switched on.
    pub project_on: bool,
    /// Whether the session is ticked for the project.
    pub shared: bool,
    /// The session's slug now; none where the session is not on this desktop.
    pub slug_now: Option<&'a str>,
    /// The slug under which the run was asked for.
    pub slug_asked: &'a str,
}

/// Whether the command may run.
pub fn given(situation: &Situation<'_>) -> bool {
    situation.project_on && situation.shared && situation.slug_now == Some(situation.slug_asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_alone_withholds_consent() {
        let yes = Situation { project_on: true, shared: true, slug_now: Some("digest"), slug_asked: "digest" };
        assert!(given(&yes));
        for no in [
            Situation { project_on: false, ..yes },
            Situation { shared: false, ..yes },
            Situation { slug_now: None, ..yes },
            Situation { slug_now: Some("invoices"), ..yes },
            Situation { slug_now: Some("Digest"), ..yes },
        ] {
            assert!(!given(&no), "{no:?}");
        }
    }
}
