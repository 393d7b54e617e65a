import { useState } from "preact/hooks";
import { request } from "../../api.ts";
import { type Results, STEPS, type StepName, testConnection } from "../../connection-test.ts";
import { may, useProject } from "../../project.ts";
import { Badge } from "../states.tsx";
import { attempt } from "../toast.tsx";

/** Tests the connection from this browser to the server step by step, with advice on failures. */
export function ConnectionCheck() {
  const { at, environment } = useProject();
  const [results, setResults] = useState<Results | null>(null);
  const [running, setRunning] = useState(false);
  const [relayOnly, setRelayOnly] = useState(false);
  const run = async () => {
    setRunning(true);
    setResults({});
    await attempt(async () => {
      const name = `connection-test-${Date.now().toString(36)}`;
      const { id: roomId } = await request(at.rooms.post({ name }, { query: { environment } }));
      const routes = at.rooms({ roomId });
      const admit = (participantIdentity: string) => request(routes["test-token"].post({ participantIdentity }));
      await testConnection({ admit, relayOnly, onResults: setResults }).finally(() => request(routes.delete()));
    });
    setRunning(false);
  };
  return (
    <section class="card stack">
      <div class="row between">
        <h2>Connection test</h2>
        {may("rooms:manage") && (
          <button type="button" class="button primary" disabled={running} onClick={() => void run()}>
            {running ? "Testing…" : results ? "Test again" : "Test this connection"}
          </button>
        )}
      </div>
      <p class="quiet">
        {may("rooms:manage")
          ? "Sends a generated video from this browser through the server and back. No camera is used."
          : "Requires a role that can create rooms."}
      </p>
      {may("rooms:manage") && (
        <label class="check">
          <input
            type="checkbox"
            checked={relayOnly}
            disabled={running}
            onChange={({ currentTarget }) => setRelayOnly(currentTarget.checked)}
          />
          Through port 443 only, as from behind a strict firewall
        </label>
      )}
      {results && (
        <>
          <ol class="checks-run" aria-live="polite">
            {(Object.keys(STEPS) as StepName[]).map((name) => {
              const { status = "waiting", detail = "", advice = null } = results[name] ?? {};
              return (
                <li key={name}>
                  <div class="row between">
                    <span>{STEPS[name]}</span>
                    <span class="row">
                      <span class="quiet small">{detail}</span>
                      <Badge>{status}</Badge>
                    </span>
                  </div>
                  {advice && <p class={`note ${status === "failed" ? "bad" : "warn"}`}>{advice}</p>}
                </li>
              );
            })}
          </ol>
          {!running && <p class={`note ${verdict(results, relayOnly).tone}`}>{verdict(results, relayOnly).text}</p>}
        </>
      )}
    </section>
  );
}

function verdict(results: Results, relayOnly: boolean): { tone: "good" | "warn" | "bad"; text: string } {
  const statuses = Object.values(results).map(({ status }) => status);
  if (statuses.length === 0) return { tone: "bad", text: "The test could not be started." };
  if (statuses.includes("failed")) {
    const where = relayOnly ? "networks that let out port 443 only" : "this network";
    return { tone: "bad", text: `Calls from ${where} will not work.` };
  }
  if (statuses.includes("slow"))
    return { tone: "warn", text: "Calls work from here, but the connection could be better." };
  if (relayOnly) return { tone: "good", text: "Calls work through port 443 alone." };
  return { tone: "good", text: "Calls work from this browser and this network." };
}
