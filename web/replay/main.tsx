import { signal } from "@preact/signals";
import { render } from "preact";
import { ChatLog } from "./chat-log.tsx";
import { Downloads } from "./downloads.tsx";
import { Player } from "./player.ts";
import { type NameOf, type Replay, readReplay } from "./replay.ts";
import { Stage } from "./stage.tsx";
import { TimeBar, toggleFullScreen } from "./time-bar.tsx";

type State = { replay: Replay; player: Player } | { problem: string } | null;

const state = signal<State>(null);

function Page() {
  const { value } = state;
  if (value === null) return <p class="empty">Loading the recording …</p>;
  if ("problem" in value) {
    return (
      <main class="empty">
        <h1>Nothing to play</h1>
        <p role="alert">{value.problem}</p>
      </main>
    );
  }
  const { replay, player } = value;
  const { recording, timeline } = replay;
  const nameOf: NameOf = (identity) => replay.names[identity] ?? identity;
  const messages = timeline.filter(({ type }) => type === "message");
  return (
    <div class={messages.length > 0 ? "replay with-chat" : "replay"}>
      <header>
        <div>
          <h1>{titleOf(recording)}</h1>
          <p class="quiet">
            {titleOf(recording) === recording.roomName ? "" : `${recording.roomName}, `}
            {new Date(recording.startedAt).toLocaleString(undefined, { dateStyle: "long", timeStyle: "short" })}
            {recording.status === "INTERRUPTED" ? ". The recording was interrupted and ends early." : ""}
          </p>
        </div>
        <Downloads replay={replay} nameOf={nameOf} />
      </header>
      <main>
        {recording.files.length === 0 ? (
          <p class="empty">No participant sent audio or video during this recording.</p>
        ) : (
          <Stage player={player} timeline={timeline} nameOf={nameOf} />
        )}
        <TimeBar player={player} timeline={timeline} nameOf={nameOf} />
      </main>
      {messages.length > 0 ? <ChatLog player={player} messages={messages} nameOf={nameOf} /> : null}
    </div>
  );
}

const titleOf = ({ name, roomName }: Replay["recording"]) => name ?? roomName;

const STEPS: Record<string, number> = { ArrowLeft: -5_000, ArrowRight: 5_000 };

/** The keys of common media players, unless a control has the focus. */
function listenToKeys(player: Player): void {
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLElement && event.target.closest("input, select, button")) return;
    const step = STEPS[event.key];
    if (step !== undefined) player.seek(player.positionMs.value + step);
    else if (event.key === " ") player.toggle();
    else if (event.key === "f" && !event.ctrlKey && !event.metaKey) toggleFullScreen();
    else return;
    event.preventDefault();
  });
}

async function open(): Promise<void> {
  try {
    const replay = await readReplay(location.hash);
    document.title = `${titleOf(replay.recording)} · Replay`;
    const player = new Player(replay);
    state.value = { replay, player };
    player.start();
    listenToKeys(player);
  } catch (error) {
    state.value = { problem: (error as Error).message };
  }
}

render(<Page />, document.getElementById("app") as HTMLElement);
void open();
