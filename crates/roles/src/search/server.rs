//! What a server does with a query.

use super::{
    index::Index,
    records::{Batch, Records},
    setup::{self, Content, Session, Setup},
};
use crate::{
    error::{Error, Result},
    opened::Opened,
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

/// What a server is asked to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchKind {
    /// The similarity of each record.
    Scores,
    /// How many records match.
    Count,
    /// Which ones match, and what they carry.
    Matches,
}

impl SearchKind {
    /// What a setup is for.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        match setup.spec.answer {
            Answer::Scores => Self::Scores,
            Answer::Count(_) => Self::Count,
            Answer::Matches { .. } => Self::Matches,
        }
    }

    /// The name of the kind of question.
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
        named.ok_or("scores, count or matches is needed")
    }
}

/// A query as the server gets it.
pub enum Asked<R: Read> {
    /// The file of an encrypted one.
    Encrypted(Box<Opened<R>>),
    /// In the clear.
    Plain(Vec<f64>),
}

/// Where the server searches.
pub enum Searched<'a> {
    /// An encrypted index.
    Index(&'a Index),
    /// Records in the clear, but for those that were deleted, by their numbers.
    Records(&'a mut dyn Records, &'a BTreeSet<usize>),
}

/// What the label of an answer carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerMeta {
    pub setup: Setup,
    pub wanted: SearchKind,
    /// Records that were searched, deleted ones included.
    pub rows: usize,
    /// Records that were deleted, as far as the server knows.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted: BTreeSet<usize>,
}

/// What a server found, encrypted.
pub struct Outcome {
    session: Session,
    meta: AnswerMeta,
    ciphertexts: Vec<Ciphertext>,
}

impl Outcome {
    /// Records that were searched, deleted ones included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.meta.rows
    }

    /// Writes the answer and returns the bytes written.
    ///
    /// # Errors
    /// As [`serial::write_ciphertexts`].
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
    /// A server with a file of evaluation keys; `small` ones keep half of them in memory.
    ///
    /// # Errors
    /// As [`Session::of`]; [`Error::File`].
    pub fn new<R: Read>(keys: Opened<R>, small: bool) -> Result<Self> {
        let session = Session::of(&keys)?;
        let keys: EvaluationKeys = keys.evaluation_keys(session.plan.params(), small)?;
        let evaluator = Evaluator::new(session.plan.params(), Arc::new(keys))?;
        Ok(Self { session, evaluator })
    }

    /// What is public of the search.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Finds what is asked for. `progress` is told of blocks that are done.
    ///
    /// # Errors
    /// [`Error::Index`] for a block that cannot be used, which names it; [`Error::Search`] for what
    /// was not planned; [`Error::File`] and [`Error::Usage`] for a query of other keys; those of
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
            SearchKind::Count | SearchKind::Matches => found.search.finish()?,
        };
        Ok(Outcome { session: session.clone(), meta, ciphertexts })
    }

    /// The ciphertext of a query's file.
    fn query<R: Read>(&self, file: Opened<R>) -> Result<Ciphertext> {
        self.session.expect(&file)?;
        let setup: Setup = setup::read(&file, Content::Query)?;
        let path = file.path().to_owned();
        if setup != self.session.setup {
            return Err(Error::Usage(format!(
                "{} is for another search: encrypt the query with the keys of this one",
                path.display()
            )));
        }
        let mut parts = file.ciphertexts(self.session.plan.params(), 0)?.content;
        match (parts.pop(), parts.is_empty()) {
            (Some(query), true) => Ok(query),
            _ => {
                let problem = "a query is one ciphertext".into();
                Err(Error::in_file(&path)(sudare::Error::Malformed { what: "file", problem }))
            }
        }
    }
}

/// A search under way.
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
        // What reading refuses says more than what a search can say of it.
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

    /// Searches records in the clear, and returns how many there are.
    fn plain(
        &mut self,
        records: &mut dyn Records,
        deleted: &BTreeSet<usize>,
        session: &Session,
    ) -> Result<usize> {
        let (length, dimension) = (session.plan.block_len(), session.setup.spec.dimension);
        let mut rows = 0;
        for block in 0.. {
            let Batch { vectors, payloads } = records.next(length)?;
            let count = payloads.len();
            if count > 0 {
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
