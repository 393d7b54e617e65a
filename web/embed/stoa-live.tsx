/** @jsxImportSource react */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { ChatPanel } from "../react/conference/chat-panel.tsx";
import { useStyle } from "../react/conference/use-style.ts";
import { StoaRoom, useRoom } from "../react/context.tsx";
import { type LiveStreamStatus, useLiveStream } from "../react/live-stream.ts";
import { useTracks } from "../react/room-hooks.ts";
import { VideoTile } from "../react/video-tile.tsx";
import { Missing } from "./missing.tsx";
import { StoaElement } from "./stoa-element.ts";

const NAMES = ["endpoint", "token", "chat-endpoint", "chat-token", "room", "stream"] as const;

/**
 * `<stoa-live endpoint token chat-endpoint chat-token room stream>`: a live stream as its viewers see it, with what they
 * say beside it. The values are those of a viewer's credentials; `room` is `rtc.roomId`. Events `joined` and `error`.
 */
export class StoaLiveElement extends StoaElement {
  static readonly observedAttributes = NAMES;

  protected content(): ReactNode {
    const [endpoint, token, chatEndpoint, chatToken, room, stream] = NAMES.map((name) => this.getAttribute(name));
    if (!endpoint || !token || !chatEndpoint || !chatToken || !room || !stream) {
      return <Missing tag="stoa-live" names={NAMES.join(", ")} />;
    }
    const rtc = { endpoint, token, roomId: room };
    const chat = { endpoint: chatEndpoint, token: chatToken };
    return (
      <Live key={token} credentials={{ streamId: stream, rtc, chat }} onJoined={this.#joined} onError={this.#failed} />
    );
  }

  readonly #joined = () => this.tell("joined");
  readonly #failed = (error: Error) => this.tell("error", error);
}

type Credentials = Parameters<typeof useLiveStream>[0];

function Live({
  credentials,
  onJoined,
  onError,
}: {
  credentials: Credentials;
  onJoined: () => void;
  onError: (error: Error) => void;
}) {
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  const stream = useLiveStream(credentials);
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Live stream">
      <StoaRoom endpoint={credentials.rtc.endpoint} token={credentials.rtc.token} onError={onError}>
        <Picture stream={stream} onJoined={onJoined} />
      </StoaRoom>
      <aside className="stoa-side" data-below="" aria-label="Chat">
        <ChatPanel {...stream} />
      </aside>
    </section>
  );
}

function Picture({ stream, onJoined }: { stream: LiveStreamStatus; onJoined: () => void }) {
  const { room, error } = useRoom();
  const [blocked, setBlocked] = useState(false);
  const [picture] = useTracks(["screenShare", "camera"]).filter(({ isLocal, muted }) => !isLocal && !muted);
  useEffect(() => {
    return room?.on("audioBlocked", () => setBlocked(true));
  }, [room]);
  useEffect(() => {
    if (room) onJoined();
  }, [room, onJoined]);
  if (error && !room) {
    const over = stream.status === "ENDED" || error.reason === "room-closed";
    return (
      <div className="stoa-main stoa-stage">
        <p role="status">{over ? "This stream has ended." : error.message}</p>
      </div>
    );
  }
  return (
    <div className="stoa-main stoa-stage">
      {picture ? (
        <figure className="stoa-tile" part="tile" data-source="screenShare">
          <VideoTile track={picture.track} aria-label={`Live picture of ${picture.identity}`} />
          <figcaption className="stoa-name">
            <span>{picture.identity}</span>
            {stream.viewerCount !== null && <span>{`${stream.viewerCount} watching`}</span>}
          </figcaption>
        </figure>
      ) : (
        <p role="status">{room ? "The stream begins soon." : "Joining…"}</p>
      )}
      {blocked && (
        <p className="stoa-notice">
          <button
            type="button"
            className="stoa-button"
            data-strong=""
            onClick={() => {
              setBlocked(false);
              void room?.startAudio();
            }}
          >
            Turn on sound
          </button>
        </p>
      )}
    </div>
  );
}
