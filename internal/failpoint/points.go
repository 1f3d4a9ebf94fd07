package failpoint

// Point is a place, named by the part of a shape's life and the moment in it.
type Point string

// The points of a creation, in the order in which a shape comes by them.
const (
	CreateBegun     Point = "create.begun"      // nothing is written yet
	StatusWriting   Point = "status.writing"    // before a batch of status rows goes to Postgres
	StatusWritten   Point = "status.written"    // Postgres has the batch, nobody has been told
	CreateRow       Point = "create.row"        // the status row is durable, and there is no log
	CreateLog       Point = "create.log"        // the log is there, and no consumer
	CreateAnnounced Point = "create.announced"  // requests find the shape, its consumer does not run
	PublishBegun    Point = "publish.begun"     // before the publication is altered
	PublishDone     Point = "publish.done"      // it was altered, the writers before it are not awaited
	CreatePublished Point = "create.published"  // the table may be read
	SnapshotRoute   Point = "snapshot.route"    // the collector knows the shape
	SnapshotBegun   Point = "snapshot.begun"    // the coordinates are known, no row is written
	SnapshotOpened  Point = "snapshot.opened"   // readers may see the first row
	SnapshotRow     Point = "snapshot.row"      // before each row
	SnapshotEnding  Point = "snapshot.ending"   // all rows are there, snapshot-end is not
	SnapshotEnded   Point = "snapshot.ended"    // the snapshot is complete
	CreateCompleted Point = "create.completed"  // its completion is noted
	AnswerBegun     Point = "answer.begun"      // a request for a shape is about to be answered, and holds its permit
	DeliverOffer    Point = "deliver.offer"     // before a delivery goes into a mailbox
	DeliverTaken    Point = "deliver.taken"     // out of the mailbox, nothing of it in the log
	DeliverAppended Point = "deliver.appended"  // in the log, not visible
	DeliverVisible  Point = "deliver.visible"   // visible, without receipt
	DeliverReceipt  Point = "deliver.receipt"   // the receipt is given
	FlushBegun      Point = "flush.begun"       // before the position is noted in the store
	FlushNoted      Point = "flush.noted"       // noted, not synced
	FlushSynced     Point = "flush.synced"      // synced, Postgres is not told
	FlushConfirmed  Point = "flush.confirmed"   // Postgres will be told
	SuspendSent     Point = "suspend.sent"      // the close request is in the mailbox
	SuspendAnswer   Point = "suspend.answer"    // the consumer has drained its mailbox and is about to acknowledge
	SuspendSettled  Point = "suspend.settled"   // acknowledged and forgotten, the consumer still runs
	ResumeBegun     Point = "resume.begun"      // a change came for a sleeping shape
	ResumeStarted   Point = "resume.started"    // its consumer is registered, what was buffered is not handed over
	ResumeHanded    Point = "resume.handed"     // what was buffered is in the mailbox
	RemoveForgotten Point = "remove.forgotten"  // the shape cannot be found, nothing is deleted
	RemoveRow       Point = "remove.row"        // before the status row is deleted
	RemoveRowDone   Point = "remove.row.done"   // and after it
	RemoveConsumer  Point = "remove.consumer"   // before the consumer is ended
	RemoveEnded     Point = "remove.ended"      // and after it
	RemoveRoute     Point = "remove.route"      // before the collector forgets the shape
	RemoveRouteDone Point = "remove.route.done" // and after it
	RemoveHold      Point = "remove.hold"       // before the hold on the publication is released
	RemoveHoldDone  Point = "remove.hold.done"  // and after it
	RemoveLog       Point = "remove.log"        // before the log is deleted
	RemoveLogDone   Point = "remove.log.done"   // and after it
	GarbageBegun    Point = "garbage.begun"     // before the bytes of removed logs are deleted
	GarbageFiles    Point = "garbage.files"     // the files are gone, the keys are not
	UnpublishBegun  Point = "unpublish.begun"   // before tables without shapes leave the publication
	UnpublishDone   Point = "unpublish.done"    // and after it
	ReconcileBegun  Point = "reconcile.begun"   // before the records are listed
	ReconcileListed Point = "reconcile.listed"  // they are listed, nothing is repaired
	StartClaimed    Point = "start.claimed"     // the stream is ours, no shape is taken up
	StartRestored   Point = "start.restored"    // one shape of before is taken up
	StartReconciled Point = "start.reconciled"  // leftovers are found and handed to removal
)

// Part is the part of a shape's life in which a point is reached, which tells a test what to do to get there.
type Part string

// The parts.
const (
	Creating   Part = "creating"
	Delivering Part = "delivering"
	Suspending Part = "suspending"
	Resuming   Part = "resuming"
	Removing   Part = "removing"
	Unused     Part = "unused" // some time after the last shape of a table went
	Starting   Part = "starting"
)

// Info describes a point.
type Info struct {
	Point Point
	Part  Part
	Fails bool // the step there can return an error
}

// All lists every point.
func All() []Info {
	return []Info{
		{CreateBegun, Creating, true},
		{StatusWriting, Creating, true},
		{StatusWritten, Creating, true},
		{CreateRow, Creating, true},
		{CreateLog, Creating, true},
		{CreateAnnounced, Creating, false},
		{PublishBegun, Creating, true},
		{PublishDone, Creating, true},
		{CreatePublished, Creating, true},
		{SnapshotRoute, Creating, true},
		{SnapshotBegun, Creating, true},
		{SnapshotOpened, Creating, true},
		{SnapshotRow, Creating, true},
		{SnapshotEnding, Creating, true},
		{SnapshotEnded, Creating, true},
		{CreateCompleted, Creating, false},
		{AnswerBegun, Creating, false},
		{DeliverOffer, Delivering, false},
		{DeliverTaken, Delivering, true},
		{DeliverAppended, Delivering, true},
		{DeliverVisible, Delivering, true},
		{DeliverReceipt, Delivering, true},
		{FlushBegun, Delivering, true},
		{FlushNoted, Delivering, true},
		{FlushSynced, Delivering, true},
		{FlushConfirmed, Delivering, true},
		{SuspendSent, Suspending, false},
		{SuspendAnswer, Suspending, false},
		{SuspendSettled, Suspending, false},
		{ResumeBegun, Resuming, true},
		{ResumeStarted, Resuming, false},
		{ResumeHanded, Resuming, false},
		{RemoveForgotten, Removing, false},
		{RemoveRow, Removing, true},
		{RemoveRowDone, Removing, true},
		{RemoveConsumer, Removing, true},
		{RemoveEnded, Removing, true},
		{RemoveRoute, Removing, true},
		{RemoveRouteDone, Removing, true},
		{RemoveHold, Removing, true},
		{RemoveHoldDone, Removing, true},
		{RemoveLog, Removing, true},
		{RemoveLogDone, Removing, true},
		{GarbageBegun, Removing, true},
		{GarbageFiles, Removing, true},
		{UnpublishBegun, Unused, true},
		{UnpublishDone, Unused, true},
		{ReconcileBegun, Starting, true},
		{ReconcileListed, Starting, true},
		{StartClaimed, Starting, true},
		{StartRestored, Starting, true},
		{StartReconciled, Starting, true},
	}
}
