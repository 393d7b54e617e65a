import { signal } from "@preact/signals";
import { render } from "preact";
import { Call } from "./call.tsx";
import { type Credentials, fromFragment, isDev } from "./credentials.ts";
import { Lobby } from "./lobby.tsx";
import { notice, openSession, type Session, say } from "./session.ts";

const session = signal<Session | null>(null);
const ended = signal<string | null>(null);

async function enter(credentials: Credentials): Promise<void> {
  ended.value = null;
  session.value = await openSession(credentials, (why) => {
    session.value?.chat?.close();
    session.value = null;
    ended.value = why;
  });
  // The microphone waits for a click: two tabs on one desk would howl.
  if (credentials.mode !== "viewer") {
    session.value.room.localParticipant.enableCamera().catch((error: Error) => say(error.message));
  }
}

async function leave(): Promise<void> {
  const { value } = session;
  session.value = null;
  await value?.close();
}

function Playground({ dev }: { dev: boolean }) {
  return (
    <>
      {session.value ? (
        <Call session={session.value} dev={dev} onLeave={leave} />
      ) : (
        <Lobby dev={dev} ended={ended.value} onEnter={enter} />
      )}
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
