import { useSignal } from "@preact/signals";
import type { PlaygroundMode } from "../../src/protocol/playground.ts";
import { type Credentials, defaultEndpoint, fromFragment, join, suggestName } from "./credentials.ts";
import { DeviceTest } from "./device-test.tsx";

type LobbyProps = { dev: boolean; ended: string | null; onEnter: (credentials: Credentials) => Promise<void> };

const MODES: [PlaygroundMode, string, string][] = [
  ["call", "Call", "Everyone sees and hears everyone."],
  ["host", "Host a stream", "You are live, others watch."],
  ["viewer", "Watch a stream", "Watch the host and chat."],
];

/** The form before the call: a name in `stoa dev`, a pasted token otherwise. */
export function Lobby({ dev, ended, onEnter }: LobbyProps) {
  const problem = useSignal<string | null>(null);
  const busy = useSignal(false);
  const enter = async (credentials: () => Promise<Credentials>) => {
    busy.value = true;
    problem.value = null;
    try {
      await onEnter(await credentials());
    } catch (error) {
      problem.value = (error as Error).message;
    }
    busy.value = false;
  };
  return (
    <main class="lobby">
      <h1>Stoa playground</h1>
      {ended !== null && <p class="quiet">{ended}</p>}
      {dev ? <DevForm busy={busy.value} onJoin={enter} /> : <TokenForm busy={busy.value} onJoin={enter} />}
      {problem.value !== null && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      <DeviceTest />
    </main>
  );
}

type FormProps = { busy: boolean; onJoin: (credentials: () => Promise<Credentials>) => void };

function DevForm({ busy, onJoin }: FormProps) {
  const query = new URLSearchParams(location.search);
  const room = useSignal(query.get("room") ?? "lobby");
  const identity = useSignal(query.get("name") ?? suggestName());
  const mode = useSignal<PlaygroundMode>((query.get("mode") as PlaygroundMode) ?? "call");
  const passphrase = useSignal("");
  const agree = useSignal(false);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const chosen = { room: room.value.trim(), identity: identity.value.trim(), mode: mode.value };
        const withPassphrase = passphrase.value === "" ? undefined : { passphrase: passphrase.value };
        const encryption = agree.value ? ({ agree: true } as const) : withPassphrase;
        onJoin(async () => ({ ...(await join(chosen)), ...(mode.value === "call" && { encryption }) }));
      }}
    >
      <p class="quiet">
        Open this page in two tabs and join the same room in both. Microphones start muted, because two tabs next to
        each other would echo.
      </p>
      <label>
        Your name
        <input
          class="input"
          name="identity"
          value={identity}
          pattern="[A-Za-z0-9._@:+=\|\-]{1,128}"
          title="Letters, digits and . _ @ : + = | -"
          onInput={({ currentTarget }) => {
            identity.value = currentTarget.value;
          }}
          required
        />
      </label>
      <label>
        Room
        <input
          class="input"
          name="room"
          value={room}
          pattern="[A-Za-z0-9._\-]{1,128}"
          title="Letters, digits and . _ -"
          onInput={({ currentTarget }) => {
            room.value = currentTarget.value;
          }}
          required
        />
      </label>
      <fieldset>
        <legend>What to do</legend>
        {MODES.map(([value, title, text]) => (
          <label key={value} class="choice">
            <input
              type="radio"
              name="mode"
              value={value}
              checked={mode.value === value}
              onChange={() => {
                mode.value = value;
              }}
            />
            <span>
              {title} <small class="quiet">{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {mode.value === "call" && (
        <label>
          Passphrase <small class="quiet">optional: encrypts the call end to end; all tabs need the same one</small>
          <input
            class="input"
            name="passphrase"
            type="password"
            autocomplete="off"
            value={passphrase}
            onInput={({ currentTarget }) => {
              passphrase.value = currentTarget.value;
            }}
            disabled={agree.value}
          />
        </label>
      )}
      {mode.value === "call" && (
        <label class="choice">
          <input
            type="checkbox"
            name="agree"
            checked={agree.value}
            onChange={({ currentTarget }) => {
              agree.value = currentTarget.checked;
            }}
          />
          <span>
            Encrypt without a passphrase <small class="quiet">the participants agree on keys; all tabs need this</small>
          </span>
        </label>
      )}
      <button class="button primary" type="submit" disabled={busy}>
        {busy ? "Joining …" : "Join"}
      </button>
    </form>
  );
}

/** `stoa serve` mints no tokens for the playground; they come from your backend, pasted or in the fragment. */
function TokenForm({ busy, onJoin }: FormProps) {
  const endpoint = useSignal(defaultEndpoint());
  const token = useSignal("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const fields = new URLSearchParams({ endpoint: endpoint.value.trim(), token: token.value.trim() });
        const credentials = fromFragment(`#${fields}`);
        if (credentials) onJoin(async () => credentials);
      }}
    >
      <p class="quiet">
        This server mints tokens for your backend only. Create one with <code>POST /v1/rooms/…/rtc-tokens</code> and
        paste it here, or open this page with <code>#endpoint=…&amp;token=…</code>. With <code>stoa dev</code> none is
        needed.
      </p>
      <label>
        Endpoint
        <input
          class="input"
          value={endpoint}
          onInput={({ currentTarget }) => {
            endpoint.value = currentTarget.value;
          }}
          required
        />
      </label>
      <label>
        Token
        <textarea
          class="input"
          rows={4}
          spellcheck={false}
          value={token}
          onInput={({ currentTarget }) => {
            token.value = currentTarget.value;
          }}
          required
        />
      </label>
      <button class="button primary" type="submit" disabled={busy}>
        {busy ? "Joining …" : "Join"}
      </button>
    </form>
  );
}
