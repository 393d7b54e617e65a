import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { ConnectionCheck } from "../../parts/call/connection-check.tsx";
import { Badge, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

const EVERY_MS = 15_000;

const ABOUT: Record<string, string> = {
  database: "A write that reaches the disk.",
  media: "The media server of this process.",
  storage: "The storage of attachments.",
  webhooks: "The delivery queue.",
  mail: "The mail server.",
};

/** Checks the server's dependencies and this browser's connection. */
export function Diagnostics() {
  const { at, projectId } = useProject();
  const diagnostics = usePolling(() => request(at.diagnostics.get()), [projectId], EVERY_MS);
  return (
    <>
      <PageHead title="Diagnostics" badge={diagnostics.data?.status}>
        <button type="button" class="button" onClick={diagnostics.reload}>
          Check again
        </button>
      </PageHead>
      <ConnectionCheck />
      <section class="stack">
        <h2>Server checks</h2>
        <Loaded live={diagnostics}>
          {({ dependencies, checkedAt }) => (
            <>
              <ul class="tiles dependencies">
                {dependencies.map(({ name, status, latencyMs, detail }) => (
                  <li key={name} class="card stack">
                    <div class="row between">
                      <b>{humanize(name)}</b>
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
        </Loaded>
      </section>
    </>
  );
}
