import { useState } from "preact/hooks";
import { request } from "../../api.ts";
import { newKey } from "../../new-key.ts";
import { Action } from "../../parts/action.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { PageHead } from "../../parts/states.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { may, useProject } from "../../project.ts";
import { SNIPPETS, type SnippetName } from "../../snippets.ts";

const PLACEHOLDER = "svk_dev_YOUR_KEY";

/** Getting started: a key, code to paste, and the playground. */
export function Start() {
  const { projectId, at, path } = useProject();
  const [language, setLanguage] = useState<SnippetName>("curl");
  const key = newKey.value?.projectId === projectId ? newKey.value.key : null;
  const createKey = async () => {
    const created = await request(at["api-keys"].post({ name: "Getting started", environment: "DEVELOPMENT" }));
    newKey.value = { projectId, key: created.key };
  };
  return (
    <>
      <PageHead title="Get started" />
      <ol class="steps">
        <li class="card stack">
          <h2>Your API key</h2>
          {key === null ? (
            <>
              <p>
                Your backend signs in with a key. A new one is shown once; those you have are under{" "}
                <a href={path("api-keys")}>API keys</a>.
              </p>
              {may("api-keys:manage") && (
                <div>
                  <Action tone="primary" run={createKey}>
                    Create a development key
                  </Action>
                </div>
              )}
            </>
          ) : (
            <>
              <p>Copy it now: this is the only time it is shown. Keep it on your server, never in a page.</p>
              <CodeBlock text={key} label="API key" />
            </>
          )}
        </li>
        <li class="card stack">
          <h2>Create a room and mint a token</h2>
          <Choice
            label="Language"
            value={language}
            onValue={setLanguage}
            options={Object.keys(SNIPPETS) as SnippetName[]}
          />
          <CodeBlock text={SNIPPETS[language](location.origin, key ?? PLACEHOLDER)} label={`${language} snippet`} />
        </li>
        <li class="card stack">
          <h2>See it work</h2>
          <p>
            The playground is a room for two tabs: your camera on one side, what the server sends back on the other.
          </p>
          <div class="actions">
            <a class="button primary" href="/playground" target="_blank" rel="noopener">
              Open the playground
            </a>
            <a class="button" href="/docs" target="_blank" rel="noopener">
              API reference
            </a>
            <a class="button" href={path("diagnostics")}>
              Test this connection
            </a>
          </div>
        </li>
      </ol>
    </>
  );
}
