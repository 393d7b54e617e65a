/**
 * The style of a conference. A page can set the variables on it or on a parent; the defaults follow the page's light or dark
 * colour scheme.
 */
export const CONFERENCE_STYLE = `
.stoa-conference {
  --_ground: var(--stoa-ground, light-dark(#f4f2ee, #121418));
  --_surface: var(--stoa-surface, light-dark(#ffffff, #1d2127));
  --_tile: var(--stoa-tile, light-dark(#dcd7ce, #262b33));
  --_text: var(--stoa-text, light-dark(#1d1f23, #eceae6));
  --_quiet: var(--stoa-quiet, light-dark(#555a63, #adb2bb));
  --_line: var(--stoa-line, light-dark(#cfc8bc, #3a404a));
  --_accent: var(--stoa-accent, light-dark(#9c421c, #f0935f));
  --_on-accent: var(--stoa-on-accent, light-dark(#ffffff, #1b1207));
  --_bad: var(--stoa-bad, light-dark(#a8221b, #ff9a92));
  --_radius: var(--stoa-radius, 12px);
  box-sizing: border-box;
  container-type: size;
  display: grid;
  grid-template: minmax(0, 1fr) auto / minmax(0, 1fr) auto;
  width: 100%;
  height: 100%;
  min-height: 320px;
  overflow: hidden;
  position: relative;
  border-radius: var(--_radius);
  background: var(--_ground);
  color: var(--_text);
  font: 15px / 1.45 var(--stoa-font, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif);
}
.stoa-conference *, .stoa-conference *::before { box-sizing: border-box; }
.stoa-conference [hidden] { display: none !important; }
.stoa-main { grid-area: 1 / 1; position: relative; display: grid; min-width: 0; min-height: 0; }
.stoa-stage { display: grid; gap: 8px; padding: 12px; min-width: 0; min-height: 0; grid-auto-rows: minmax(0, 1fr); position: relative; }
.stoa-stage[data-columns="2"] { grid-template-columns: repeat(2, minmax(0, 1fr)); }
.stoa-stage[data-columns="3"] { grid-template-columns: repeat(3, minmax(0, 1fr)); }
.stoa-stage[data-columns="4"] { grid-template-columns: repeat(4, minmax(0, 1fr)); }
.stoa-stage[data-view="speaker"] { grid-template: minmax(0, 1fr) / minmax(0, 1fr); }
.stoa-stage[data-view="speaker"][data-strip] { grid-template-rows: minmax(0, 1fr) 96px; }
.stoa-strip { display: flex; gap: 8px; overflow-x: auto; min-width: 0; }
.stoa-strip .stoa-tile { flex: 0 0 150px; }
.stoa-tile { position: relative; margin: 0; min-height: 0; overflow: hidden; border-radius: var(--_radius); background: var(--_tile); outline: 3px solid transparent; outline-offset: -3px; display: grid; place-items: center; }
.stoa-tile[data-speaking]::after { content: ""; position: absolute; inset: 0; border: 3px solid var(--_accent); border-radius: inherit; pointer-events: none; }
.stoa-tile video { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: cover; }
.stoa-tile[data-source="screenShare"] video { object-fit: contain; background: #000; }
.stoa-tile video[data-mirrored] { transform: scaleX(-1); }
.stoa-initials { display: grid; place-items: center; width: 72px; height: 72px; border-radius: 50%; background: var(--_surface); color: var(--_text); font-size: 26px; font-weight: 600; }
.stoa-strip .stoa-initials { width: 44px; height: 44px; font-size: 17px; }
.stoa-name { position: absolute; left: 8px; bottom: 8px; max-width: calc(100% - 16px); display: flex; gap: 6px; align-items: center; padding: 2px 8px; border-radius: 99px; background: rgb(0 0 0 / 0.72); color: #fff; font-size: 13px; }
.stoa-name > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.stoa-recording { position: absolute; left: 20px; top: 20px; margin: 0; padding: 2px 10px; border-radius: 99px; background: rgb(0 0 0 / 0.72); color: #fff; font-size: 13px; }
.stoa-recording::before { content: ""; display: inline-block; width: 8px; height: 8px; margin-right: 6px; border-radius: 50%; background: #ff5148; }
.stoa-encrypted { position: absolute; right: 20px; top: 20px; margin: 0; padding: 2px 10px; border-radius: 99px; background: rgb(0 0 0 / 0.72); color: #fff; font-size: 13px; display: flex; gap: 4px; align-items: center; }
.stoa-encrypted .stoa-icon { width: 14px; height: 14px; }
.stoa-no-key { position: absolute; inset: auto 8px 40px; display: flex; gap: 4px; align-items: center; justify-content: center; font-size: 13px; color: var(--_quiet); }
.stoa-no-key .stoa-icon { width: 14px; height: 14px; }
.stoa-hand { position: absolute; right: 8px; top: 8px; padding: 2px 8px; border-radius: 99px; background: var(--_accent); color: var(--_on-accent); font-size: 13px; font-weight: 600; }
.stoa-icon { width: 22px; height: 22px; fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; flex: none; }
.stoa-name .stoa-icon { width: 15px; height: 15px; }
.stoa-bar { grid-column: 1 / -1; display: flex; flex-wrap: wrap; justify-content: center; gap: 8px; padding: 10px 12px calc(10px + env(safe-area-inset-bottom)); background: var(--_surface); border-top: 1px solid var(--_line); }
.stoa-button { display: inline-flex; align-items: center; justify-content: center; gap: 6px; min-width: 44px; height: 44px; padding: 0 10px; border: 1px solid var(--_line); border-radius: 99px; background: var(--_ground); color: var(--_text); font: inherit; cursor: pointer; }
.stoa-button:hover { border-color: var(--_text); }
.stoa-button:disabled { opacity: 0.5; cursor: default; }
.stoa-button[aria-pressed="true"], .stoa-button[data-strong] { background: var(--_accent); border-color: var(--_accent); color: var(--_on-accent); }
.stoa-button[data-off] { background: var(--_surface); border-color: var(--_bad); color: var(--_bad); }
.stoa-button[data-leave] { border-color: var(--_bad); color: var(--_bad); }
.stoa-conference :focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
.stoa-side { grid-column: 2; grid-row: 1; width: 320px; display: flex; flex-direction: column; min-height: 0; background: var(--_surface); border-left: 1px solid var(--_line); }
.stoa-side[data-alone] { grid-column: 1 / -1; width: auto; border-left: 0; }
.stoa-side h2 { margin: 0; padding: 12px 16px; font-size: 15px; border-bottom: 1px solid var(--_line); display: flex; justify-content: space-between; align-items: center; }
.stoa-log { flex: 1; min-height: 0; overflow-y: auto; }
.stoa-messages { margin: 0; padding: 12px 16px; list-style: none; display: flex; flex-direction: column; gap: 10px; }
.stoa-messages b { display: block; font-size: 13px; color: var(--_quiet); font-weight: 600; }
.stoa-messages p { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.stoa-messages [data-status="failed"] p { color: var(--_bad); }
.stoa-chat { flex: 1; min-height: 0; display: flex; flex-direction: column; }
.stoa-chat[data-dropping] { outline: 3px dashed var(--_accent); outline-offset: -6px; }
.stoa-link { padding: 0; border: 0; background: none; color: var(--_accent); font: inherit; text-align: left; text-decoration: underline; overflow-wrap: anywhere; cursor: pointer; }
.stoa-upload { margin: 0; padding: 8px 16px; display: grid; grid-template-columns: minmax(0, 1fr) auto auto; gap: 8px; align-items: center; font-size: 13px; }
.stoa-failure { margin: 0; padding: 8px 16px; display: flex; flex-wrap: wrap; gap: 4px 12px; font-size: 14px; color: var(--_bad); overflow-wrap: anywhere; }
.stoa-again { display: flex; gap: 12px; font-size: 14px; }
.stoa-upload > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.stoa-upload progress { width: 90px; accent-color: var(--_accent); }
.stoa-attach { position: relative; flex: none; overflow: hidden; }
.stoa-attach:focus-within { outline: 3px solid var(--_accent); outline-offset: 2px; }
.stoa-form .stoa-attach input { position: absolute; inset: 0; width: 100%; height: 100%; padding: 0; opacity: 0; cursor: pointer; }
.stoa-empty { color: var(--_quiet); }
.stoa-form { display: flex; gap: 8px; padding: 12px; border-top: 1px solid var(--_line); }
.stoa-form input { flex: 1; min-width: 0; }
.stoa-form .stoa-button[data-strong] { padding: 0 16px; }
.stoa-conference input, .stoa-conference select { height: 44px; padding: 0 12px; border: 1px solid var(--_quiet); border-radius: 10px; background: var(--_ground); color: var(--_text); font: inherit; }
.stoa-fields { display: flex; flex-direction: column; gap: 14px; padding: 16px; }
.stoa-fields label { display: flex; flex-direction: column; gap: 4px; font-size: 13px; color: var(--_quiet); }
.stoa-fields .stoa-check { flex-direction: row; align-items: center; gap: 10px; font-size: 15px; color: inherit; }
.stoa-conference .stoa-check input { flex: none; width: 20px; height: 20px; margin: 0; accent-color: var(--_accent); }
.stoa-popup { margin: 0; position: absolute; bottom: 72px; left: 50%; translate: -50% 0; z-index: 2; display: flex; gap: 4px; padding: 6px; border: 1px solid var(--_line); border-radius: 99px; background: var(--_surface); }
.stoa-popup button { width: 44px; height: 44px; border: 0; border-radius: 50%; background: none; font-size: 22px; cursor: pointer; }
.stoa-reactions { position: absolute; left: 16px; bottom: 16px; z-index: 1; display: flex; flex-direction: column; gap: 4px; margin: 0; padding: 0; list-style: none; pointer-events: none; }
.stoa-reactions li { padding: 2px 10px; border-radius: 99px; background: rgb(0 0 0 / 0.72); color: #fff; font-size: 14px; }
.stoa-notice { position: absolute; top: 12px; left: 50%; translate: -50% 0; z-index: 3; max-width: calc(100% - 24px); margin: 0; padding: 8px 14px; border-radius: 18px; background: var(--_text); color: var(--_ground); font-size: 14px; display: flex; gap: 10px; align-items: center; }
.stoa-notice .stoa-button { height: 32px; }
.stoa-lobby { position: absolute; top: 12px; right: 12px; z-index: 3; max-width: calc(100% - 24px); max-height: 40%; overflow: auto; margin: 0; padding: 8px 8px 8px 14px; border-radius: 16px; background: var(--_ground); color: var(--_text); border: 1px solid var(--_line); list-style: none; font-size: 14px; display: grid; gap: 8px; }
.stoa-lobby li { display: flex; gap: 8px; align-items: center; }
.stoa-lobby span { flex: 1; overflow-wrap: anywhere; }
.stoa-lobby .stoa-button { height: 32px; }
.stoa-message { grid-area: 1 / 1 / -1 / -1; display: grid; place-content: center; justify-items: center; gap: 14px; padding: 24px; text-align: center; }
.stoa-message p { margin: 0; max-width: 44ch; }
.stoa-captions { position: absolute; left: 50%; bottom: 56px; translate: -50% 0; z-index: 1; width: 80%; text-align: center; pointer-events: none; display: flex; flex-direction: column; gap: 4px; }
.stoa-captions span, .stoa-captions ::slotted(*) { display: inline-block; padding: 4px 12px; border-radius: 8px; background: rgb(0 0 0 / 0.78); color: #fff; }
.stoa-caption-lines { display: flex; flex-direction: column; align-items: center; gap: 4px; }
.stoa-caption-lines p { margin: 0; padding: 4px 12px; border-radius: 8px; background: rgb(0 0 0 / 0.78); color: #fff; font-size: 17px; overflow-wrap: anywhere; text-wrap: pretty; }
.stoa-caption-lines b { font-size: 14px; }
.stoa-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.stoa-stage > [role="status"] { align-self: center; justify-self: center; margin: 0; text-align: center; }
@container (max-width: 640px) {
  .stoa-stage[data-view="grid"] { grid-template-columns: repeat(auto-fit, minmax(min(150px, 100%), 1fr)); }
  .stoa-stage[data-view="grid"][data-count="2"] { grid-template-columns: minmax(0, 1fr); }
  .stoa-side { grid-column: 1; z-index: 2; width: auto; border-left: 0; }
  .stoa-side[data-below] { grid-row: 2; height: 58cqh; border-top: 1px solid var(--_line); }
  .stoa-bar { gap: 6px; padding-inline: 6px; }
  .stoa-captions { width: calc(100% - 24px); bottom: 44px; }
  .stoa-caption-lines p { font-size: 15px; }
}
@media (prefers-reduced-motion: no-preference) {
  .stoa-reactions li { animation: stoa-rise 0.25s ease-out; }
  @keyframes stoa-rise { from { opacity: 0; translate: 0 8px; } }
}
`;
