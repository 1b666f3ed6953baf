//! `GET /v1/models` and `GET /v1/models/{id}`: what can be asked for. Models that cannot be served are not listed, so
//! every id in the list works as it stands; asking for such a model by name says what is wrong with it.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};

use super::wire::{Model, ModelList};
use crate::anthropic;
use crate::catalog::{Card, OpenError, Served};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::router::App;

/// All models that can be served.
pub(crate) async fn list(State(app): State<App>, dialect: Dialect) -> Response {
    let cards: Vec<Card> = app.catalog.cards().into_iter().filter(|card| card.trouble.is_none()).collect();
    match dialect {
        Dialect::OpenAi => {
            let data = cards.into_iter().map(model).collect();
            Json(ModelList { object: "list", data }).into_response()
        }
        Dialect::Anthropic => Json(anthropic::models::list(cards)).into_response(),
    }
}

/// One model, by any name that a request may use; it answers with its full one.
pub(crate) async fn one(
    State(app): State<App>,
    dialect: Dialect,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Error> {
    // What is no text names no model.
    let Ok(Path(id)) = id else { return Err(unknown(&app, "\u{fffd}".to_owned())) };
    match app.catalog.card(&id).map_err(|source| named(&app, &id, source))? {
        Card { id: name, trouble: Some(reason), .. } => {
            Err(Error::Open { name, source: OpenError::Unusable { reason } })
        }
        card => Ok(match dialect {
            Dialect::OpenAi => Json(model(card)).into_response(),
            Dialect::Anthropic => Json(anthropic::models::model(card)).into_response(),
        }),
    }
}

/// The model that a request names.
pub(crate) async fn open(app: &App, name: &str) -> Result<Served, Error> {
    app.catalog.open(name).await.map_err(|source| named(app, name, source))
}

fn named(app: &App, name: &str, source: OpenError) -> Error {
    match source {
        OpenError::Unknown => unknown(app, name.to_owned()),
        source => Error::Open { name: name.to_owned(), source },
    }
}

fn unknown(app: &App, name: String) -> Error {
    let known = app.catalog.cards().into_iter().filter(|card| card.trouble.is_none()).map(|card| card.id).collect();
    Error::UnknownModel { name, known }
}

fn model(card: Card) -> Model {
    Model { id: card.id, object: "model", created: card.created, owned_by: "omlx", max_model_len: card.context }
}
