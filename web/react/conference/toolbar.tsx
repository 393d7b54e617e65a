/** @jsxImportSource react */
import { useState } from "react";
import { mayPublish } from "../../../src/protocol/may-publish.ts";
import { useRoom } from "../context.tsx";
import { useTracks } from "../room-hooks.ts";
import { toStoaError } from "../to-stoa-error.ts";
import { Icon, type IconName } from "./icon.tsx";
import type { Processing } from "./processing.ts";
import { EMOJIS, type useSignals } from "./signals.ts";
import type { View } from "./stage.tsx";

export type Panel = "chat" | "devices" | null;

type ToolbarProps = {
  signals: ReturnType<typeof useSignals>;
  view: View;
  setView: (view: View) => void;
  panel: Panel;
  setPanel: (panel: Panel) => void;
  hasChat: boolean;
  /** Null in a room without captions. */
  captions: { shown: boolean; show: (shown: boolean) => void } | null;
  /** The microphone is opened for music. */
  music: boolean;
  processing: Processing;
  notify: (notice: string) => void;
  leave: () => void;
};

export function Toolbar(props: ToolbarProps) {
  const { signals, view, setView, panel, setPanel, hasChat, captions, music, processing, notify, leave } = props;
  const { room } = useRoom();
  const own = useTracks().filter(({ isLocal }) => isLocal);
  const [reactionsOpen, setReactionsOpen] = useState(false);
  const isOn = (source: string) => own.some((track) => track.source === source && !track.muted);
  const permissions = room?.localParticipant.permissions;
  const may = (kind: "audio" | "video") => permissions != null && mayPublish(permissions, kind);
  const attempt = (work: Promise<unknown> | undefined) => {
    work?.catch((error) => {
      if (toStoaError(error).reason !== "cancelled") notify(toStoaError(error).message);
    });
  };
  const local = room?.localParticipant;
  const cameraOptions = () => ({ processor: processing.forCamera() });
  const toggleMicrophone = () => {
    const track = local?.track("microphone");
    const processor = processing.forMicrophone();
    attempt(isOn("microphone") && track ? local?.mute(track) : local?.enableMicrophone({ music, processor }));
  };
  return (
    <div className="stoa-bar" part="bar" role="toolbar" aria-label="Call">
      {may("audio") && (
        <Button
          icon={isOn("microphone") ? "microphone" : "microphoneOff"}
          label="Microphone"
          off={!isOn("microphone")}
          on={isOn("microphone")}
          onClick={toggleMicrophone}
        />
      )}
      {may("video") && (
        <>
          <Button
            icon={isOn("camera") ? "camera" : "cameraOff"}
            label="Camera"
            off={!isOn("camera")}
            on={isOn("camera")}
            onClick={() => attempt(isOn("camera") ? local?.disableCamera() : local?.enableCamera(cameraOptions()))}
          />
          <Button
            icon="screen"
            label="Share screen"
            on={isOn("screenShare")}
            onClick={() => attempt(isOn("screenShare") ? local?.stopScreen() : local?.shareScreen())}
          />
        </>
      )}
      {permissions?.publishData !== false && (
        <>
          <Button icon="hand" label="Raise hand" on={signals.raised} onClick={() => signals.raise(!signals.raised)} />
          <Button icon="smile" label="React" on={reactionsOpen} onClick={() => setReactionsOpen(!reactionsOpen)} />
        </>
      )}
      <Button
        icon="layout"
        label="Speaker view"
        on={view === "speaker"}
        onClick={() => setView(view === "speaker" ? "grid" : "speaker")}
      />
      {captions && (
        <Button icon="captions" label="Captions" on={captions.shown} onClick={() => captions.show(!captions.shown)} />
      )}
      {hasChat && (
        <Button
          icon="chat"
          label="Chat"
          on={panel === "chat"}
          onClick={() => setPanel(panel === "chat" ? null : "chat")}
        />
      )}
      <Button
        icon="settings"
        label="Devices"
        on={panel === "devices"}
        onClick={() => setPanel(panel === "devices" ? null : "devices")}
      />
      <button type="button" className="stoa-button" data-leave="" onClick={leave}>
        <Icon name="leave" />
        Leave
      </button>
      {reactionsOpen && (
        <fieldset className="stoa-popup" aria-label="Reactions">
          {EMOJIS.map((emoji) => (
            <button
              key={emoji}
              type="button"
              aria-label={`React with ${emoji}`}
              onClick={() => {
                signals.react(emoji);
                setReactionsOpen(false);
              }}
            >
              {emoji}
            </button>
          ))}
        </fieldset>
      )}
    </div>
  );
}

type ButtonProps = { icon: IconName; label: string; on: boolean; off?: boolean; onClick: () => void };

function Button({ icon, label, on, off, onClick }: ButtonProps) {
  return (
    <button
      type="button"
      className="stoa-button"
      aria-label={label}
      title={label}
      aria-pressed={off === undefined ? on : !off}
      data-off={off ? "" : undefined}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
