/** @jsxImportSource react */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { ChatPanel } from "../react/conference/chat-panel.tsx";
import { useStyle } from "../react/conference/use-style.ts";
import { StoaRoom, useRoom } from "../react/context.tsx";
import { type LiveStreamStatus, useLiveStream } from "../react/live-stream.ts";
import { useTracks } from "../react/room-hooks.ts";
import { VideoTile } from "../react/video-tile.tsx";
import { MissingAttributes, missingText } from "./missing-attributes.tsx";
import { StoaElement } from "./stoa-element.ts";

const ATTRIBUTES = ["endpoint", "token", "chat-endpoint", "chat-token", "room", "stream"] as const;

/**
 * `<stoa-live endpoint token chat-endpoint chat-token room stream>`: a live stream for a viewer, with its chat. The
 * values come from a viewer's credentials; `room` is `rtc.roomId`. Dispatches `joined` and `error`.
 */
export class StoaLiveElement extends StoaElement {
  static readonly observedAttributes = ATTRIBUTES;

  protected content(): ReactNode {
    const [endpoint, token, chatEndpoint, chatToken, room, stream] = ATTRIBUTES.map((name) => this.getAttribute(name));
    if (!endpoint || !token || !chatEndpoint || !chatToken || !room || !stream) {
      const values = Object.fromEntries(ATTRIBUTES.map((name) => [name, this.getAttribute(name)]));
      return <MissingAttributes text={missingText("stoa-live", values) ?? ""} />;
    }
    const rtc = { endpoint, token, roomId: room };
    const chat = { endpoint: chatEndpoint, token: chatToken };
    return (
      <Live key={token} credentials={{ streamId: stream, rtc, chat }} onJoined={this.#joined} onError={this.#failed} />
    );
  }

  readonly #joined = () => this.dispatch("joined");
  readonly #failed = (error: Error) => this.dispatch("error", error);
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
        <StreamVideo stream={stream} onJoined={onJoined} />
      </StoaRoom>
      <aside className="stoa-side" data-below="" aria-label="Chat">
        <ChatPanel {...stream} />
      </aside>
    </section>
  );
}

function StreamVideo({ stream, onJoined }: { stream: LiveStreamStatus; onJoined: () => void }) {
  const { room, error } = useRoom();
  const [audioBlocked, setAudioBlocked] = useState(false);
  const [video] = useTracks(["screenShare", "camera"]).filter(({ isLocal, muted }) => !isLocal && !muted);
  useEffect(() => {
    return room?.on("audioBlocked", () => setAudioBlocked(true));
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
      {video ? (
        <figure className="stoa-tile" part="tile" data-source="screenShare">
          <VideoTile track={video.track} aria-label={`Live video of ${video.identity}`} />
          <figcaption className="stoa-name">
            <span>{video.identity}</span>
            {stream.viewerCount !== null && <span>{`${stream.viewerCount} watching`}</span>}
          </figcaption>
        </figure>
      ) : (
        <p role="status">{room ? "The stream begins soon." : "Joining…"}</p>
      )}
      {audioBlocked && (
        <p className="stoa-notice">
          <button
            type="button"
            className="stoa-button"
            data-strong=""
            onClick={() => {
              setAudioBlocked(false);
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
