/** @jsxImportSource react */
import type { DeviceKind } from "../../sdk/index.ts";
import { useRoom } from "../context.tsx";
import { useDevices } from "../room-hooks.ts";
import { toStoaError } from "../to-stoa-error.ts";
import type { Processing } from "./processing.ts";

const LABELS = { audioinput: "Microphone", videoinput: "Camera", audiooutput: "Speaker" } as const;

type DevicesPanelProps = { processing: Processing; notify: (notice: string) => void };

export function DevicesPanel({ processing, notify }: DevicesPanelProps) {
  const { noise, blur, setNoise, setBlur } = processing;
  const { room } = useRoom();
  const choose = (kind: DeviceKind, deviceId: string) => {
    const work =
      kind === "audiooutput" ? room?.setAudioOutput(deviceId) : room?.localParticipant.switchDevice(kind, deviceId);
    work?.catch((error) => notify(toStoaError(error).message));
  };
  return (
    <>
      <h2>Devices</h2>
      <div className="stoa-fields">
        {(["audioinput", "videoinput", "audiooutput"] as const).map((kind) => (
          <DeviceChoice key={kind} kind={kind} choose={choose} />
        ))}
        <Check label="Suppress background noise" checked={noise} onChange={setNoise} />
        <Check label="Blur my background" checked={blur} onChange={setBlur} />
      </div>
    </>
  );
}

function Check({ label, checked, onChange }: { label: string; checked: boolean; onChange: (on: boolean) => void }) {
  return (
    <label className="stoa-check">
      <input type="checkbox" checked={checked} onChange={() => onChange(!checked)} />
      {label}
    </label>
  );
}

function DeviceChoice({ kind, choose }: { kind: DeviceKind; choose: (kind: DeviceKind, deviceId: string) => void }) {
  const devices = useDevices(kind).filter(({ deviceId }) => deviceId !== "");
  return (
    <label>
      {LABELS[kind]}
      <select
        disabled={devices.length === 0}
        onChange={(event) => choose(kind, (event.target as HTMLSelectElement).value)}
      >
        {devices.length === 0 && <option>No device available yet</option>}
        {devices.map(({ deviceId, label }, index) => (
          <option key={deviceId} value={deviceId}>
            {label || `${LABELS[kind]} ${index + 1}`}
          </option>
        ))}
      </select>
    </label>
  );
}
