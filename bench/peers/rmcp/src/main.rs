// The client of the Rust SDK: `rmcp_peer CALLS TEXT SERVER…` makes CALLS calls, a hundred in flight,
// or starts another client, for each line on stdin.
use std::env;
use std::error::Error;
use std::io::{self, BufRead};

use futures::future::join_all;
use rmcp::service::{RoleClient, RunningService};
use rmcp::{ServiceExt, model::CallToolRequestParams, transport::TokioChildProcess};
use tokio::process::Command;

const IN_FLIGHT: usize = 100;

type Client = RunningService<RoleClient, ()>;

/// Starts a server, and lists its tools.
async fn connect(server: &[String]) -> Result<Client, Box<dyn Error>> {
    let mut command = Command::new(&server[0]);
    command.args(&server[1..]);
    let client = ().serve(TokioChildProcess::new(command)?).await?;
    client.list_tools(None).await?;
    Ok(client)
}

async fn call(client: &Client, text: &str) {
    let arguments = serde_json::json!({ "text": text });
    let arguments = arguments.as_object().expect("an object").clone();
    let params = CallToolRequestParams::new("echo").with_arguments(arguments);
    let result = client.call_tool(params).await.expect("a result");
    let echo = result.content[0].as_text().expect("text");
    assert_eq!(echo.text, text);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let calls: usize = words[0].parse()?;
    let (text, server) = (&words[1], &words[2..]);
    let client = connect(server).await?;
    call(&client, text).await;
    println!("ready");
    for line in io::stdin().lock().lines() {
        if line? == "start" {
            let another = connect(server).await?;
            call(&another, text).await;
            println!("started");
            another.cancel().await?;
            println!("closed");
            continue;
        }
        join_all((0..IN_FLIGHT).map(|_| async {
            for _ in 0..calls / IN_FLIGHT {
                call(&client, text).await;
            }
        }))
        .await;
        println!("done");
    }
    client.cancel().await?;
    Ok(())
}
