import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { freshKey } from "../../fresh-key.ts";
import { Action } from "../../parts/action.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { PageHead } from "../../parts/states.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { may, useProject } from "../../project.ts";
import { SNIPPETS, type SnippetName } from "../../snippets.ts";

const PLACEHOLDER = "svk_dev_YOUR_KEY";

/** From nothing to the first room: a key, a line to paste, and a place to see it work. */
export function Start() {
  const { projectId, at, path } = useProject();
  const [language, setLanguage] = useState<SnippetName>("curl");
  const key = freshKey.value?.projectId === projectId ? freshKey.value.key : null;
  const createKey = async () => {
    const created = await ask(at["api-keys"].post({ name: "Getting started", environment: "DEVELOPMENT" }));
    freshKey.value = { projectId, key: created.key };
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
          <h2>Create a room and let somebody in</h2>
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
