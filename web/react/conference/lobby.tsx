/** @jsxImportSource react */
import type { StoaError } from "../../sdk/index.ts";
import { useRoom } from "../context.tsx";
import { useLobby } from "../room-hooks.ts";

/** The participants who wait in the lobby, for a host to admit or to turn away. */
export function Lobby({ notify }: { notify: (notice: string) => void }) {
  const { room } = useRoom();
  const waiting = useLobby();
  if (!room || waiting.length === 0) return null;
  const run = (done: Promise<object>) => void done.catch((error: StoaError) => notify(error.message));
  return (
    <ul className="stoa-lobby" aria-label="Lobby" aria-live="polite">
      {waiting.map(({ identity, name }) => (
        <li key={identity}>
          <span>{name ?? identity} wants to join</span>
          <button type="button" className="stoa-button" data-strong="" onClick={() => run(room.admit(identity))}>
            Admit
          </button>
          <button type="button" className="stoa-button" onClick={() => run(room.deny(identity))}>
            Deny
          </button>
        </li>
      ))}
    </ul>
  );
}
