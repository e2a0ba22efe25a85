//! The resources and prompts of the fixture.

use crate::content::{PNG, embedded, image, text};
use serde_json::{Map, Value, json};

/// All direct resources.
pub fn resources() -> Value {
    json!([
        { "uri": "test://static-text", "name": "Static text", "description": "A text that never changes", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "Static picture", "description": "One pixel", "mimeType": "image/png" },
        { "uri": "test://watched-resource", "name": "Watched", "description": "One to subscribe to", "mimeType": "text/plain" },
    ])
}

/// All resource templates.
pub fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data", "name": "Template", "description": "Data by id", "mimeType": "application/json",
    }])
}

/// The content of a resource.
pub fn read(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" => json!({ "mimeType": "text/plain", "text": "This is the content of the static text resource." }),
        "test://static-binary" => json!({ "mimeType": "image/png", "blob": PNG }),
        "test://watched-resource" => json!({ "mimeType": "text/plain", "text": "Watched." }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "mimeType": "application/json", "text": data.to_string() })
        }
    };
    let mut content = content;
    content["uri"] = uri.into();
    Some(json!({ "contents": [content] }))
}

/// All prompts.
pub fn prompts() -> Value {
    let argument = |name: &str, description: &str| json!({ "name": name, "description": description, "required": true });
    json!([
        { "name": "test_simple_prompt", "description": "No arguments" },
        {
            "name": "test_prompt_with_arguments", "description": "Two arguments",
            "arguments": [argument("arg1", "The first"), argument("arg2", "The second")],
        },
        {
            "name": "test_prompt_with_embedded_resource", "description": "A resource in a message",
            "arguments": [argument("resourceUri", "The resource's URI")],
        },
        { "name": "test_prompt_with_image", "description": "A picture in a message" },
        { "name": "test_input_required_result_prompt", "description": "Asks before it answers" },
    ])
}

/// The messages of a prompt that needs no input.
pub fn prompt(name: &str, arguments: &Map<String, Value>) -> Option<Value> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", given("arg1"), given("arg2")))]
        }
        "test_prompt_with_embedded_resource" => vec![
            embedded(given("resourceUri"), "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        _ => return None,
    };
    Some(messages(contents))
}

/// User messages with these contents.
pub fn messages(contents: Vec<Value>) -> Value {
    let messages: Vec<Value> = contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    json!({ "messages": messages })
}
