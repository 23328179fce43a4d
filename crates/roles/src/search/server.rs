//! The server's side of a search.

use super::{
    index::Index,
    records::{Batch, Records},
    setup::{self, Content, Session, Setup},
};
use crate::{
    error::{Error, Result},
    format::opened::Opened,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    str::FromStr,
    sync::Arc,
};
use sudare::{
    ckks::{Ciphertext, Evaluator, serial},
    rlwe::EvaluationKeys,
};
use sudare_apps::search::{Answer, Block, Query, Record, Search, SearchError};

/// The kind of answer that a server computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchKind {
    /// The similarity of each record.
    Scores,
    /// The number of matching records.
    Count,
    /// The matching records with their payloads.
    Matches,
}

impl SearchKind {
    /// Returns the kind of answer of a setup.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        match setup.spec.answer {
            Answer::Scores => Self::Scores,
            Answer::Count(_) => Self::Count,
            Answer::Matches { .. } => Self::Matches,
        }
    }

    /// Returns the name of the kind of answer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scores => "scores",
            Self::Count => "count",
            Self::Matches => "matches",
        }
    }
}

impl FromStr for SearchKind {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        let all = [Self::Scores, Self::Count, Self::Matches];
        let named = all.into_iter().find(|wanted| wanted.name() == text);
        named.ok_or("write scores, count or matches")
    }
}

/// A query as the server receives it.
pub enum Asked<R: Read> {
    /// The file of an encrypted query.
    Encrypted(Box<Opened<R>>),
    /// A query in the clear.
    Plain(Vec<f64>),
}

/// The data that the server searches.
pub enum Searched<'a> {
    /// An encrypted index.
    Index(&'a Index),
    /// Records in the clear, and the numbers of the deleted ones.
    Records(&'a mut dyn Records, &'a BTreeSet<usize>),
}

/// Metadata in the label of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerMeta {
    pub setup: Setup,
    pub wanted: SearchKind,
    /// Number of searched records, including deleted ones.
    pub rows: usize,
    /// Numbers of the deleted records that the server knows.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted: BTreeSet<usize>,
}

/// An encrypted answer.
pub struct Outcome {
    session: Session,
    meta: AnswerMeta,
    ciphertexts: Vec<Ciphertext>,
}

impl Outcome {
    /// Returns the number of searched records, including deleted ones.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.meta.rows
    }

    /// Writes the answer and returns the number of bytes written.
    ///
    /// # Errors
    /// The errors of [`serial::write_ciphertexts`].
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> Result<u64> {
        let label = self.session.label(Content::Answer, &self.meta)?;
        let params = self.session.plan.params();
        Ok(serial::write_ciphertexts(out, params, &self.ciphertexts, &label)?)
    }
}

/// A server with the keys for a search.
pub struct Server {
    session: Session,
    evaluator: Evaluator,
}

impl Server {
    /// Creates a server from a file of evaluation keys. With `small`, it keeps only half of each
    /// key in memory.
    ///
    /// # Errors
    /// The errors of [`Session::of`]; [`Error::File`].
    pub fn new<R: Read>(keys: Opened<R>, small: bool) -> Result<Self> {
        let session = Session::of(&keys)?;
        let keys: EvaluationKeys = keys.evaluation_keys(session.plan.params(), small)?;
        let evaluator = Evaluator::new(session.plan.params(), Arc::new(keys))?;
        Ok(Self { session, evaluator })
    }

    /// Returns the public facts of the search.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a search. Calls `progress` with the number of finished blocks.
    ///
    /// # Errors
    /// [`Error::Index`] for an unusable block, which it names; [`Error::Search`] for an unplanned
    /// search; [`Error::File`] and [`Error::Usage`] for a query of other keys; errors from the
    /// records.
    pub fn run<R: Read>(
        &self,
        asked: Asked<R>,
        searched: Searched<'_>,
        wanted: SearchKind,
        progress: impl FnMut(usize),
    ) -> Result<Outcome> {
        let session = &self.session;
        let encrypted = match asked {
            Asked::Encrypted(file) => Ok(self.query(*file)?),
            Asked::Plain(vector) => Err(vector),
        };
        let query = match &encrypted {
            Ok(ciphertext) => Query::Encrypted(ciphertext),
            Err(vector) => Query::Plain(vector),
        };
        let search = session.plan.search(&self.evaluator, query)?;
        let mut found = Finding { search, wanted, scores: Vec::new(), progress };
        let (rows, deleted) = match searched {
            Searched::Index(index) => {
                for block in 0..index.blocks() {
                    found.encrypted(block, index, session)?;
                }
                (index.rows(), BTreeSet::new())
            }
            Searched::Records(records, deleted) => {
                (found.plain(records, deleted, session)?, deleted.clone())
            }
        };
        let meta = AnswerMeta { setup: session.setup, wanted, rows, deleted };
        let ciphertexts = match wanted {
            SearchKind::Scores => found.scores,
            // Counts and matches are sums over all blocks, so they exist only after the last one.
            SearchKind::Count | SearchKind::Matches => found.search.finish()?,
        };
        Ok(Outcome { session: session.clone(), meta, ciphertexts })
    }

    /// Reads the ciphertext in a query's file.
    fn query<R: Read>(&self, file: Opened<R>) -> Result<Ciphertext> {
        self.session.expect(&file)?;
        let setup: Setup = setup::read(&file, Content::Query)?;
        let path = file.path().to_owned();
        if setup != self.session.setup {
            return Err(Error::Usage(format!(
                "{} belongs to another search: encrypt the query with the keys of this one",
                path.display()
            )));
        }
        let mut parts = file.ciphertexts(self.session.plan.params(), 0)?.content;
        // Exactly one, since a second ciphertext would be ignored without a word.
        match (parts.pop(), parts.is_empty()) {
            (Some(query), true) => Ok(query),
            _ => {
                let problem = "a query is one ciphertext".into();
                Err(Error::in_file(&path)(sudare::Error::Malformed { what: "file", problem }))
            }
        }
    }
}

/// A search in progress.
struct Finding<'a, P> {
    search: Search<'a, Evaluator>,
    wanted: SearchKind,
    scores: Vec<Ciphertext>,
    progress: P,
}

impl<P: FnMut(usize)> Finding<'_, P> {
    fn add(
        &mut self,
        block: usize,
        content: Block<'_, Ciphertext>,
    ) -> core::result::Result<(), SearchError> {
        match self.wanted {
            SearchKind::Scores => self.scores.push(self.search.scores(block, content)?),
            SearchKind::Count | SearchKind::Matches => self.search.add(block, content)?,
        }
        (self.progress)(block + 1);
        Ok(())
    }

    fn encrypted(&mut self, block: usize, index: &Index, session: &Session) -> Result<()> {
        let mut file = index.block(block, session)?;
        // The error from reading says more than the error from the search.
        let mut refused = None;
        let mut read = |part: usize| {
            file.read(part).map_err(|error| {
                let problem = error.to_string();
                refused = Some(error);
                SearchError::Unreadable { block, part, problem }
            })
        };
        let added = self.add(block, Block::Encrypted(&mut read));
        added.map_err(|error| refused.unwrap_or(error.into()))
    }

    /// Searches records in the clear, and returns their number.
    fn plain(
        &mut self,
        records: &mut dyn Records,
        deleted: &BTreeSet<usize>,
        session: &Session,
    ) -> Result<usize> {
        let length = session.plan.block_len();
        let dimension = session.setup.spec.dimension;
        let mut rows = 0;
        for block in 0.. {
            let Batch { vectors, payloads } = records.next(length)?;
            let count = payloads.len();
            if count > 0 {
                // Before the block is searched: a plan admits a maximum number of blocks.
                session.plan.blocks(rows + count)?;
                let all = vectors.chunks_exact(dimension).zip(&payloads).enumerate();
                let all: Vec<_> = all
                    .map(|(i, (vector, payload))| {
                        (!deleted.contains(&(rows + i))).then_some(Record { vector, payload })
                    })
                    .collect();
                self.add(block, Block::Plain(&all))?;
                rows += count;
            }
            if count < length {
                break;
            }
        }
        Ok(rows)
    }
}
