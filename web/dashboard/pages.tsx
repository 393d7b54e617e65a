import { lazy, Route, Router, useLocation } from "preact-iso";
import { Shell } from "./parts/frame/shell.tsx";
import { missingFactor, sessionKnown, signedIn, user } from "./session.ts";

const VerifySecondFactor = lazy(() =>
  import("./pages/account/second-factor.tsx").then((page) => page.VerifySecondFactor),
);
const SetUpSecondFactor = lazy(() =>
  import("./pages/account/second-factor.tsx").then((page) => page.SetUpSecondFactor),
);
const SignIn = lazy(() => import("./pages/account/sign-in.tsx").then((page) => page.SignIn));
const PasswordReset = lazy(() => import("./pages/account/password-reset.tsx").then((page) => page.PasswordReset));
const VerifyEmail = lazy(() => import("./pages/account/confirmation-links.tsx").then((page) => page.VerifyEmail));
const OAuthCallback = lazy(() => import("./pages/account/confirmation-links.tsx").then((page) => page.OAuthCallback));
const Invitation = lazy(() => import("./pages/account/invitation.tsx").then((page) => page.Invitation));

const Projects = lazy(() => import("./pages/project/projects.tsx").then((page) => page.Projects));
const Account = lazy(() => import("./pages/account/account.tsx").then((page) => page.Account));
const Cluster = lazy(() => import("./pages/installation/cluster.tsx").then((page) => page.Cluster));
const Servers = lazy(() => import("./pages/installation/servers.tsx").then((page) => page.Servers));

const Overview = lazy(() => import("./pages/project/overview.tsx").then((page) => page.Overview));
const Start = lazy(() => import("./pages/project/start.tsx").then((page) => page.Start));
const Rooms = lazy(() => import("./pages/rooms/rooms.tsx").then((page) => page.Rooms));
const OneRoom = lazy(() => import("./pages/rooms/room.tsx").then((page) => page.OneRoom));
const Recordings = lazy(() => import("./pages/rooms/recordings.tsx").then((page) => page.Recordings));
const OneRecording = lazy(() => import("./pages/rooms/recording.tsx").then((page) => page.OneRecording));
const LiveStreams = lazy(() => import("./pages/rooms/live-streams.tsx").then((page) => page.LiveStreams));
const OneLiveStream = lazy(() => import("./pages/rooms/live-stream.tsx").then((page) => page.OneLiveStream));
const Chat = lazy(() => import("./pages/chat/chat.tsx").then((page) => page.Chat));
const Conversation = lazy(() => import("./pages/chat/conversation.tsx").then((page) => page.Conversation));
const Connections = lazy(() => import("./pages/rooms/connections.tsx").then((page) => page.Connections));
const OneConnection = lazy(() => import("./pages/rooms/connection.tsx").then((page) => page.OneConnection));
const Calls = lazy(() => import("./pages/rooms/calls.tsx").then((page) => page.Calls));
const OneCall = lazy(() => import("./pages/rooms/call.tsx").then((page) => page.CallPage));
const Errors = lazy(() => import("./pages/rooms/errors.tsx").then((page) => page.Errors));
const Diagnostics = lazy(() => import("./pages/installation/diagnostics.tsx").then((page) => page.Diagnostics));
const Usage = lazy(() => import("./pages/project/usage.tsx").then((page) => page.Usage));
const ApiKeys = lazy(() => import("./pages/project/api-keys.tsx").then((page) => page.ApiKeys));
const Webhooks = lazy(() => import("./pages/webhooks/webhooks.tsx").then((page) => page.Webhooks));
const OneWebhook = lazy(() => import("./pages/webhooks/webhook.tsx").then((page) => page.OneWebhook));
const OneDelivery = lazy(() => import("./pages/webhooks/delivery.tsx").then((page) => page.OneDelivery));
const Members = lazy(() => import("./pages/project/members.tsx").then((page) => page.Members));
const People = lazy(() => import("./pages/project/personal-data.tsx").then((page) => page.PersonalData));
const AuditLog = lazy(() => import("./pages/project/audit-log.tsx").then((page) => page.AuditLog));
const Settings = lazy(() => import("./pages/project/settings.tsx").then((page) => page.Settings));

/** Pages that need no session: those that a mail or a provider links to. */
const PUBLIC_PAGES = /^\/(?:verify-email|password-reset|invitation|oauth\/[^/]+\/callback)$/;

/** The routes of the dashboard. A page is loaded when it is first opened. */
export function Pages() {
  const { path } = useLocation();
  if (!sessionKnown.value) return <div class="loading" role="status" aria-label="Loading" />;
  if (PUBLIC_PAGES.test(path)) return <PublicPages />;
  if (user.value !== null && missingFactor.value !== null) {
    return missingFactor.value === "verify" ? <VerifySecondFactor /> : <SetUpSecondFactor />;
  }
  return signedIn.value ? <SignedInPages /> : <SignIn />;
}

function PublicPages() {
  return (
    <Router>
      <Route path="/verify-email" component={VerifyEmail} />
      <Route path="/password-reset" component={PasswordReset} />
      <Route path="/invitation" component={Invitation} />
      <Route path="/oauth/:provider/callback" component={OAuthCallback} />
    </Router>
  );
}

function SignedInPages() {
  return (
    <Shell>
      <Router>
        <Route path="/" component={Projects} />
        <Route path="/account" component={Account} />
        <Route path="/cluster" component={Cluster} />
        <Route path="/servers" component={Servers} />
        <Route path="/projects/:projectId" component={Overview} />
        <Route path="/projects/:projectId/start" component={Start} />
        <Route path="/projects/:projectId/rooms" component={Rooms} />
        <Route path="/projects/:projectId/rooms/:roomId" component={OneRoom} />
        <Route path="/projects/:projectId/recordings" component={Recordings} />
        <Route path="/projects/:projectId/recordings/:recordingId" component={OneRecording} />
        <Route path="/projects/:projectId/live-streams" component={LiveStreams} />
        <Route path="/projects/:projectId/live-streams/:streamId" component={OneLiveStream} />
        <Route path="/projects/:projectId/chat/:tab?" component={Chat} />
        <Route path="/projects/:projectId/chat/conversations/:conversationId" component={Conversation} />
        <Route path="/projects/:projectId/calls" component={Calls} />
        <Route path="/projects/:projectId/calls/:callId" component={OneCall} />
        <Route path="/projects/:projectId/connections" component={Connections} />
        <Route path="/projects/:projectId/connections/:connectionId" component={OneConnection} />
        <Route path="/projects/:projectId/errors" component={Errors} />
        <Route path="/projects/:projectId/diagnostics" component={Diagnostics} />
        <Route path="/projects/:projectId/usage" component={Usage} />
        <Route path="/projects/:projectId/api-keys" component={ApiKeys} />
        <Route path="/projects/:projectId/webhooks" component={Webhooks} />
        <Route path="/projects/:projectId/webhooks/:webhookId" component={OneWebhook} />
        <Route path="/projects/:projectId/webhooks/:webhookId/deliveries/:deliveryId" component={OneDelivery} />
        <Route path="/projects/:projectId/members" component={Members} />
        <Route path="/projects/:projectId/people" component={People} />
        <Route path="/projects/:projectId/audit-log" component={AuditLog} />
        <Route path="/projects/:projectId/settings" component={Settings} />
        <Route default component={NotFound} />
      </Router>
    </Shell>
  );
}

function NotFound() {
  return (
    <div class="empty">
      <p>This page does not exist.</p>
      <a href="/">Go to your projects</a>
    </div>
  );
}
