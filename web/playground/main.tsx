import { signal } from "@preact/signals";
import { render } from "preact";
import { Call } from "./call.tsx";
import { type Credentials, fromFragment, isDev, join } from "./credentials.ts";
import { Lobby } from "./lobby.tsx";
import { hearRings, IncomingRing, incoming, missed } from "./ring.tsx";
import { notice, openSession, type Session, say } from "./session.ts";

const session = signal<Session | null>(null);
/** The call that was left: its chat stays open, so that others can ring. */
const left = signal<Session | null>(null);
const ended = signal<string | null>(null);

async function enter(credentials: Credentials): Promise<void> {
  ended.value = null;
  left.value?.chat?.close();
  left.value = null;
  incoming.value = null;
  missed.value = null;
  session.value = await openSession(credentials, (why) => {
    session.value?.chat?.close();
    session.value = null;
    ended.value = why;
  });
  if (session.value.chat && credentials.mode === "call") hearRings(session.value.chat);
  // The microphone waits for a click: two tabs on one desk would howl.
  if (credentials.mode !== "viewer") {
    session.value.room.localParticipant.enableCamera().catch((error: Error) => say(error.message));
  }
}

async function leave(): Promise<void> {
  const { value } = session;
  session.value = null;
  if (value?.credentials.mode === "call") left.value = value;
  else value?.chat?.close();
  await value?.room.close();
}

/** Tokens of `stoa dev` are there for the asking; others are good for another time. */
async function comeBack({ room, credentials }: Session, dev: boolean): Promise<void> {
  const { mode, identity } = credentials;
  await enter(dev ? await join({ room: room.name, identity, mode }) : credentials);
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
      {call && <IncomingRing room={call.room.name} onAnswer={() => comeBack(call, dev)} />}
      <div class="notice" role="status">
        {notice.value}
      </div>
    </>
  );
}

const root = document.getElementById("app");
if (root) {
  const dev = await isDev();
  const given = fromFragment(location.hash);
  render(<Playground dev={dev} />, root);
  if (given)
    enter(given).catch((error: Error) => {
      ended.value = error.message;
    });
}
