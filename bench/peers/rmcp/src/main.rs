// The client of the Rust SDK: `rmcp_peer CALLS TEXT SERVER…` makes CALLS calls, a hundred in flight,
// for each line on stdin, and then says so.
use std::env;
use std::io::{self, BufRead};

use futures::future::join_all;
use rmcp::{ServiceExt, model::CallToolRequestParams, transport::TokioChildProcess};
use tokio::process::Command;

const IN_FLIGHT: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args().skip(1);
    let calls: usize = words.next().expect("CALLS").parse()?;
    let text = words.next().expect("TEXT");
    let mut command = Command::new(words.next().expect("SERVER"));
    command.args(words);
    let client = ().serve(TokioChildProcess::new(command)?).await?;
    let arguments = serde_json::json!({ "text": text });
    let call = async || {
        let arguments = arguments.as_object().expect("an object").clone();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = client.call_tool(params).await.expect("a result");
        let echo = result.content[0].as_text().expect("text");
        assert_eq!(echo.text, text);
    };
    call().await;
    println!("ready");
    for line in io::stdin().lock().lines() {
        line?;
        join_all((0..IN_FLIGHT).map(|_| async {
            for _ in 0..calls / IN_FLIGHT {
                call().await;
            }
        }))
        .await;
        println!("done");
    }
    client.cancel().await?;
    Ok(())
}
