import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { NETWORK_PROFILES } from "../../src/protocol/playground-profiles.ts";
import { type DeviceKind, listDevices, onDevicesChanged } from "../sdk/index.ts";
import { impair, moveStream } from "./credentials.ts";
import { attempt, changes, type Session, streamStatus } from "./session.ts";

type ControlsProps = {
  session: Session;
  dev: boolean;
  showChat: Signal<boolean>;
  showStats: Signal<boolean>;
  onLeave: () => Promise<void>;
};

export function Controls({ session, dev, showChat, showStats, onLeave }: ControlsProps) {
  const { room, conversation, credentials } = session;
  const { localParticipant: me } = room;
  const [camera, microphone, screen] = changes.value >= 0 ? SOURCES.map((source) => me.track(source)) : [];
  const talking = microphone !== undefined && !microphone.muted;
  const { streamId } = credentials;
  const publishes = me.permissions?.publish === true;
  return (
    <footer class="controls">
      {publishes && (
        <>
          <Toggle
            label="Microphone"
            on={talking}
            onClick={attempt(async () => (microphone && talking ? me.mute(microphone) : me.enableMicrophone()))}
          />
          <Toggle
            label="Camera"
            on={camera !== undefined}
            onClick={attempt(async () => (camera ? me.disableCamera() : me.enableCamera()))}
          />
          <Toggle
            label="Screen"
            on={screen !== undefined}
            onClick={attempt(async () => (screen ? me.stopScreen() : me.shareScreen()))}
          />
          {microphone && <DevicePicker session={session} kind="audioinput" label="Microphone in use" />}
          {camera && <DevicePicker session={session} kind="videoinput" label="Camera in use" />}
        </>
      )}
      {dev && streamId && credentials.mode === "host" && streamStatus.value === "CREATED" && (
        <button type="button" class="button primary" onClick={attempt(() => moveStream(streamId, "start"))}>
          Go live
        </button>
      )}
      {dev && streamId && credentials.mode === "host" && streamStatus.value === "LIVE" && (
        <button type="button" class="button" onClick={attempt(() => moveStream(streamId, "end"))}>
          End stream
        </button>
      )}
      {conversation && <Toggle label="Chat" on={showChat.value} onClick={() => (showChat.value = !showChat.value)} />}
      <Toggle label="Stats" on={showStats.value} onClick={() => (showStats.value = !showStats.value)} />
      {dev && <NetworkPicker session={session} />}
      <button type="button" class="button danger" onClick={attempt(onLeave)}>
        Leave
      </button>
    </footer>
  );
}

const SOURCES = ["camera", "microphone", "screenShare"] as const;

function Toggle({ label, on, onClick }: { label: string; on: boolean; onClick: () => void }) {
  return (
    <button type="button" class={`button toggle ${on ? "on" : ""}`} aria-pressed={on} onClick={onClick}>
      {label}
    </button>
  );
}

type PickerProps = { session: Session; kind: Exclude<DeviceKind, "audiooutput">; label: string };

function DevicePicker({ session, kind, label }: PickerProps) {
  const devices = useSignal<MediaDeviceInfo[]>([]);
  useEffect(() => {
    const list = async () => {
      devices.value = await listDevices(kind);
    };
    void list();
    return onDevicesChanged(() => void list());
  }, [kind]);
  const track = session.room.localParticipant.track(kind === "audioinput" ? "microphone" : "camera");
  if (devices.value.length < 2) return null;
  return (
    <select
      class="input picker"
      aria-label={label}
      value={track?.mediaStreamTrack.getSettings().deviceId}
      onChange={({ currentTarget: { value } }) =>
        attempt(() => session.room.localParticipant.switchDevice(kind, value))()
      }
    >
      {devices.value.map(({ deviceId, label }) => (
        <option key={deviceId} value={deviceId}>
          {label}
        </option>
      ))}
    </select>
  );
}

/** A bad network between this tab and the media server; only `stoa dev` has it. */
function NetworkPicker({ session }: { session: Session }) {
  const { roomId } = session.credentials.rtc;
  if (roomId === undefined) return null;
  const { identity } = session.room.localParticipant;
  return (
    <select
      class="input picker"
      aria-label="Network"
      onChange={({ currentTarget: { value } }) =>
        attempt(() => impair(roomId, identity, value as keyof typeof NETWORK_PROFILES))()
      }
    >
      {Object.entries(NETWORK_PROFILES).map(([profile, text]) => (
        <option key={profile} value={profile}>
          {text}
        </option>
      ))}
    </select>
  );
}
