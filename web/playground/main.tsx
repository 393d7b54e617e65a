import { signal } from "@preact/signals";
import { render } from "preact";
import { Call } from "./call.tsx";
import { type Credentials, fromFragment, isDev, join } from "./credentials.ts";
import { receiveFiles } from "./files.tsx";
import { Lobby } from "./lobby.tsx";
import { IncomingRing, incoming, listenForRings, missed } from "./ring.tsx";
import { notice, notify, openSession, type Session } from "./session.ts";

const session = signal<Session | null>(null);
/** The call that the user has left. Its chat stays open, so that others can ring. */
const left = signal<Session | null>(null);
const ended = signal<string | null>(null);

async function enter(credentials: Credentials): Promise<void> {
  ended.value = null;
  left.value?.chat?.close();
  left.value = null;
  incoming.value = null;
  missed.value = null;
  session.value = await openSession(credentials, (reason) => {
    session.value?.chat?.close();
    session.value = null;
    ended.value = reason;
  });
  receiveFiles(session.value.room);
  if (session.value.chat && credentials.mode === "call") listenForRings(session.value.chat);
  // The microphone stays off until a click, because two tabs on one machine would cause feedback.
  if (credentials.mode !== "viewer") {
    session.value.room.localParticipant.enableCamera().catch((error: Error) => notify(error.message));
  }
}

async function leave(): Promise<void> {
  const { value } = session;
  session.value = null;
  if (value?.credentials.mode === "call") left.value = value;
  else value?.chat?.close();
  await value?.room.close();
}

/** Joins again, with new tokens in `stoa dev` and with the same ones otherwise. */
async function rejoin({ room, credentials }: Session, dev: boolean): Promise<void> {
  const { mode, identity, encryption } = credentials;
  await enter(dev ? { ...(await join({ room: room.name, identity, mode })), encryption } : credentials);
}

const REACHABLE = "You have left. While this page is open, the others can ring you.";

function Playground({ dev }: { dev: boolean }) {
  const { value: call } = left;
  return (
    <>
      {session.value ? (
        <Call session={session.value} dev={dev} onLeave={leave} />
      ) : (
        <Lobby dev={dev} ended={call?.chat ? REACHABLE : ended.value} onEnter={enter} />
      )}
      {call && <IncomingRing room={call.room.name} onAnswer={() => rejoin(call, dev)} />}
      <div class="notice" role="status">
        {notice.value}
      </div>
    </>
  );
}

const root = document.getElementById("app");
if (root) {
  const dev = await isDev();
  const fragmentCredentials = fromFragment(location.hash);
  render(<Playground dev={dev} />, root);
  if (fragmentCredentials)
    enter(fragmentCredentials).catch((error: Error) => {
      ended.value = error.message;
    });
}
