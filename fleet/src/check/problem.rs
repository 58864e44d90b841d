//! What is wrong with a script, as it is told.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// What, and what to write in its place where that is known.
    pub message: String,
}

/// Why a script did not pass [`crate::Fleet::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// The script is wrong.
    Problems {
        /// The file name that positions are shown with.
        file: String,
        /// In the order of their places; never empty.
        problems: Vec<Problem>,
    },
    /// The script could not be read by the engine at all: it exhausts the worker, or the worker cannot be started.
    Engine(String),
}

impl CheckError {
    /// What is wrong with the script; empty when the engine is the trouble.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Problems { problems, .. } => problems,
            Self::Engine(_) => &[],
        }
    }
}

impl fmt::Display for CheckError {
    /// One `file:line:column: message` a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problems { file, problems } => {
                for (index, problem) in problems.iter().enumerate() {
                    let newline = if index == 0 { "" } else { "\n" };
                    write!(f, "{newline}{file}:{}:{}: {}", problem.line, problem.column, problem.message)?;
                }
                Ok(())
            }
            Self::Engine(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CheckError {}
