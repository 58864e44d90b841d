//! A hub on loopback with one project, one desktop and one assistant: `serve FILE.db PORT`. It prints the two
//! tokens and the project as JSON, then serves until it is killed.

use std::sync::Arc;

use hub::{Action, Hub, NewConnection, NewDevice, Scope, Settings};
use protocol::SystemClock;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: serve FILE.db PORT")?;
    let port: u16 = args.next().ok_or("usage: serve FILE.db PORT")?.parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let settings = Settings { public_url: url.clone(), ..Settings::default() };
    let hub = Hub::new(hub::open_store(&path).await?, Arc::new(SystemClock), settings);
    let project = hub.admin().add_project("Demo").await?;
    hub.admin().add_member(&project.id, "owner").await?;
    let new = NewConnection {
        name: "assistant".to_owned(),
        owner: "owner".to_owned(),
        projects: vec![],
        scopes: Scope::ALL.to_vec(),
        actions: Action::ALL.to_vec(),
    };
    let (_, assistant) = hub.admin().add_connection(new).await?;
    let new = NewDevice { name: "laptop".to_owned(), owner: "owner".to_owned() };
    let (_, desktop) = hub.admin().add_device(new).await?;
    println!(
        "{}",
        serde_json::json!({"url": url, "project": project.id, "connection_token": assistant.to_string(),
            "device_token": desktop.to_string()})
    );
    hub::serve(listener, hub, std::future::pending()).await?;
    Ok(())
}
