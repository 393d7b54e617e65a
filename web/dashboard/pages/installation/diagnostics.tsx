import { ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { ConnectionCheck } from "../../parts/call/connection-check.tsx";
import { Badge, PageHead, Shown, words } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

const EVERY_MS = 15_000;

const ABOUT: Record<string, string> = {
  database: "A write that reaches the disk.",
  media: "The media server of this process.",
  storage: "Where attachments are kept.",
  webhooks: "What waits to be delivered.",
  mail: "The mail server.",
};

/** Does the server have all it needs, and can this browser reach it? */
export function Diagnostics() {
  const { at, projectId } = useProject();
  const diagnostics = useLive(() => ask(at.diagnostics.get()), [projectId], EVERY_MS);
  return (
    <>
      <PageHead title="Diagnostics" badge={diagnostics.data?.status}>
        <button type="button" class="button" onClick={diagnostics.reload}>
          Look again
        </button>
      </PageHead>
      <ConnectionCheck />
      <section class="stack">
        <h2>What the server needs</h2>
        <Shown live={diagnostics}>
          {({ dependencies, checkedAt }) => (
            <>
              <ul class="tiles dependencies">
                {dependencies.map(({ name, status, latencyMs, detail }) => (
                  <li key={name} class="card stack">
                    <div class="row between">
                      <b>{words(name)}</b>
                      <Badge>{status}</Badge>
                    </div>
                    <p class="quiet small">{ABOUT[name]}</p>
                    {detail && <p class="small">{detail}</p>}
                    <p class="quiet small">answered in {durationText(latencyMs)}</p>
                  </li>
                ))}
              </ul>
              <p class="quiet small">
                Checked <Ago at={checkedAt} />.
              </p>
            </>
          )}
        </Shown>
      </section>
    </>
  );
}
