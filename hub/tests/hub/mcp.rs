//! MCP's manners: both eras, what needs a token, and how a refusal looks (SPEC 6).

use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use hub::{Action, Scope};
use serde_json::{Value, json};

use crate::world::{ERAS, Era, World};

const PATHS: [&str; 2] = ["/mcp", "/api/v1/external-mcp"];

#[tokio::test]
async fn both_eras_introduce_themselves_without_a_token_and_without_a_session() {
    let world = World::new().await;
    for version in ["2025-06-18", "2025-11-25"] {
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let request = Request::post("/mcp")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(Body::from(message.to_string()));
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.body["result"]["protocolVersion"], json!(version), "{answer:?}");
        assert!(answer.headers.get("mcp-session-id").is_none());
        assert!(answer.body["result"]["capabilities"]["tools"].is_object());
    }
    let answer = world.mcp(Era::Stateless, None, "server/discover", json!({})).await;
    let versions = &answer.body["result"]["supportedVersions"];
    assert_eq!(versions, &json!(["2025-06-18", "2025-11-25", "2026-07-28"]), "{answer:?}");
    assert!(answer.headers.get("mcp-session-id").is_none());
    let ping = world.mcp(Era::Handshake, None, "ping", json!({})).await;
    assert_eq!((ping.status, &ping.body["result"]), (StatusCode::OK, &json!({})));
    let mut request = world.mcp_request(Era::Handshake, "/mcp", None, "notifications/initialized", json!({}));
    *request.body_mut() = Body::from(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    assert_eq!(world.send(request).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn the_tools_are_listed_to_anybody_as_the_specification_says() {
    let world = World::new().await;
    for era in ERAS {
        for path in PATHS {
            let answer = world.send(world.mcp_request(era, path, None, "tools/list", json!({}))).await;
            let tools = answer.body["result"]["tools"].as_array().unwrap();
            let facts: Vec<Value> = tools
                .iter()
                .map(|tool| {
                    assert_eq!(tool["securitySchemes"], tool["_meta"]["securitySchemes"]);
                    assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false));
                    assert!(tool["outputSchema"].is_object());
                    let hints = &tool["annotations"];
                    json!([tool["name"], tool["securitySchemes"], hints["readOnlyHint"], hints["destructiveHint"]])
                })
                .collect();
            let scheme = |scope: &str| json!([{"type": "oauth2", "scopes": [scope]}]);
            let (read, run) = (scheme("osfoundry:read"), scheme("osfoundry:run"));
            let expected = json!([
                ["list_graph_sessions", read, true, null],
                ["run_graph_session", run, false, true],
                ["get_graph_run", read, true, null],
                ["cancel_graph_run", run, false, true],
            ]);
            assert_eq!(Value::Array(facts), expected);
        }
    }
}

#[tokio::test]
async fn a_call_without_a_good_token_is_401_with_the_challenge_in_header_and_result() {
    let world = World::new().await;
    for era in ERAS {
        for path in PATHS {
            for token in [None, Some("grc_invented"), Some(world.desktop.as_str())] {
                let call = json!({"name": "list_graph_sessions", "arguments": {}});
                let answer = world.send(world.mcp_request(era, path, token, "tools/call", call)).await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
                let challenge = answer.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
                let metadata = format!(
                    "Bearer resource_metadata=\"http://127.0.0.1:8787/.well-known/oauth-protected-resource{path}\""
                );
                assert!(challenge.starts_with(&metadata), "{challenge}");
                assert_eq!(challenge.contains("invalid_token"), token.is_some());
                assert_eq!(answer.body["id"], json!(1));
                let result = &answer.body["result"];
                assert_eq!(result["isError"], json!(true));
                assert_eq!(result["_meta"]["mcp/www_authenticate"], json!([challenge]));
            }
        }
    }
}

#[tokio::test]
async fn a_missing_scope_is_403_and_names_every_scope_that_a_new_token_needs() {
    let world = World::new().await;
    let reader = world.connection("ada", &[Scope::Read], Action::ALL).await;
    for era in ERAS {
        // Without arguments: the scope comes before the schema.
        let answer = world.mcp(era, Some(&reader), "tools/call", json!({"name": "run_graph_session"})).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{answer:?}");
        let challenge = answer.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
        assert!(challenge.contains("scope=\"osfoundry:read osfoundry:run\""), "{challenge}");
        let text = &answer.body["result"]["content"][0]["text"];
        assert_eq!(text, &json!("token lacks osfoundry:run"));
    }
}

#[tokio::test]
async fn headers_are_judged_before_the_token() {
    let world = World::new().await;
    let call = json!({"name": "list_graph_sessions", "arguments": {}});
    let mut request = world.mcp_request(Era::Stateless, "/mcp", None, "tools/call", call.clone());
    request.headers_mut().insert("mcp-name", "run_graph_session".parse().unwrap());
    assert_eq!(world.send(request).await.status, StatusCode::BAD_REQUEST, "the header contradicts the body");
    let mut request = world.mcp_request(Era::Handshake, "/mcp", None, "tools/call", call.clone());
    request.headers_mut().insert("mcp-protocol-version", "1999-01-01".parse().unwrap());
    assert_eq!(world.send(request).await.status, StatusCode::BAD_REQUEST);
    let mut request = world.mcp_request(Era::Handshake, "/mcp", None, "tools/call", call);
    request.headers_mut().insert(header::ACCEPT, "text/html".parse().unwrap());
    assert_eq!(world.send(request).await.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_call_that_names_no_tool_or_has_no_arguments_object_is_told_so() {
    let world = World::new().await;
    let token = Some(world.assistant.as_str());
    for era in ERAS {
        let unknown = world.mcp(era, token, "tools/call", json!({"name": "rm"})).await;
        assert_eq!(unknown.body["error"]["code"], json!(-32602), "{unknown:?}");
        let params = json!({"name": "list_graph_sessions", "arguments": [1]});
        let malformed = world.mcp(era, token, "tools/call", params.clone()).await;
        assert_eq!(malformed.body["error"]["code"], json!(-32602), "{malformed:?}");
        let stranger = world.mcp(era, None, "tools/call", params).await;
        assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "{stranger:?}");
    }
}

#[tokio::test]
async fn other_methods_than_post_are_405() {
    let world = World::new().await;
    for path in PATHS {
        for method in [Method::GET, Method::DELETE] {
            let request = Request::builder().method(method).uri(path).header(header::ACCEPT, "text/event-stream");
            let answer = world.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.headers[header::ALLOW], "POST");
        }
    }
}

#[tokio::test]
async fn tool_calls_stream_their_answer() {
    let world = World::new().await;
    for era in ERAS {
        let call = json!({"name": "list_graph_sessions", "arguments": {}});
        let answer = world.mcp(era, Some(&world.assistant), "tools/call", call).await;
        assert_eq!(answer.headers[header::CONTENT_TYPE], "text/event-stream");
        let result = &answer.body["result"];
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"], "both say the same");
    }
}

#[tokio::test]
async fn the_metadata_of_both_mounts_lists_the_same_scopes() {
    let world = World::new().await;
    for (path, resource) in [("", "/mcp"), ("/mcp", "/mcp"), ("/api/v1/external-mcp", "/api/v1/external-mcp")] {
        let request = Request::get(format!("/.well-known/oauth-protected-resource{path}")).body(Body::empty());
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.body["resource"], json!(format!("http://127.0.0.1:8787{resource}")));
        let scopes = json!(["osfoundry:read", "osfoundry:write", "osfoundry:run", "osfoundry:models"]);
        assert_eq!(answer.body["scopes_supported"], scopes);
    }
}
